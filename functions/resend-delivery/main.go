// Command resend-delivery serves POST /webhooks/{id}/deliveries/{delivery_id}/resend.
package main

import (
	"crypto/rand"
	"time"

	"remit/internal/boot"
	"remit/internal/dynamo"
	"remit/internal/httpapi"
	"remit/internal/meterenv"
	"remit/internal/queue"
	"remit/internal/webhook"
)

func main() { meterenv.HTTP(wire, time.Now) }

// wire names everything this function may touch. ResendDeliveryFunction in
// template.yaml is granted exactly this.
func wire(env *boot.Env) httpapi.Endpoint {
	webhooks := dynamo.OpenWebhooks(env.AWS, env.String("WEBHOOKS_TABLE"))
	jobs := queue.OpenJobs(env.AWS, env.String("WEBHOOK_QUEUE_URL"))
	log := webhook.NewLog(webhooks, jobs, time.Now, rand.Reader)
	return httpapi.ResendDelivery(rand.Text, log)
}
