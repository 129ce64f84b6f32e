// Command resend-delivery serves POST /webhooks/{id}/deliveries/{delivery_id}/resend and
// POST /webhooks/{id}/resend-failed.
package main

import (
	"crypto/rand"

	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/aws/boot"
	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/aws/meterenv"
	"github.com/remit-payouts/remit/internal/aws/queue"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
)

func main() { meterenv.HTTP(wire) }

func wire(env *boot.Env) httpapi.Endpoint {
	webhooks := dynamo.OpenWebhooks(env.AWS, env.String("WEBHOOKS_TABLE"))
	jobs := queue.OpenJobs(env.AWS, env.String("WEBHOOK_QUEUE_URL"))
	log := webhook.NewLog(webhooks, jobs, env.Now, rand.Reader)
	return httpapi.ResendDelivery(log).With(httpapi.ResendFailed(log, env.Now))
}
