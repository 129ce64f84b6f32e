// Command list-deliveries serves GET /webhooks/{id}/deliveries.
package main

import (
	"crypto/rand"
	"time"

	"remit/internal/boot"
	"remit/internal/dynamo"
	"remit/internal/httpapi"
	"remit/internal/meterenv"
	"remit/internal/webhook"
)

func main() { meterenv.HTTP(wire, time.Now) }

// wire names everything this function may touch. ListDeliveriesFunction in
// template.yaml is granted exactly this.
func wire(env *boot.Env) httpapi.Endpoint {
	webhooks := dynamo.OpenWebhooks(env.AWS, env.String("WEBHOOKS_TABLE"))
	log := webhook.NewLog(webhooks, nil, time.Now, rand.Reader) // nothing is sent from here
	return httpapi.ListDeliveries(rand.Text, log)
}
