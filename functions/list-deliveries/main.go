// Command list-deliveries serves GET /webhooks/{id}/deliveries.
package main

import (
	"crypto/rand"

	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/aws/boot"
	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/aws/meterenv"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
)

func main() { meterenv.HTTP(wire) }

// wire names everything that ListDeliveriesFunction in template.yaml is granted.
func wire(env *boot.Env) httpapi.Endpoint {
	webhooks := dynamo.OpenWebhooks(env.AWS, env.String("WEBHOOKS_TABLE"))
	log := webhook.NewLog(webhooks, nil, env.Now, rand.Reader) // nothing is sent from here
	return httpapi.ListDeliveries(log)
}
