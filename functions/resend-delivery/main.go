// Command resend-delivery serves POST /webhooks/{id}/deliveries/{delivery_id}/resend and
// POST /webhooks/{id}/resend-failed.
package main

import (
	"crypto/rand"

	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/aws/apienv"
	"github.com/remit-payouts/remit/internal/aws/eventenv"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
)

func main() { apienv.HTTP(wire) }

func wire(env apienv.Env) httpapi.Endpoint {
	log := &webhook.Log{Store: env.Webhooks(), Queue: eventenv.Jobs(env), Now: env.Now, Random: rand.Reader}
	return httpapi.ResendDelivery(log).With(httpapi.ResendFailed(log, env.Now))
}
