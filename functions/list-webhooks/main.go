// Command list-webhooks serves GET /webhooks.
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

// wire names everything this function may touch. ListWebhooksFunction in
// template.yaml is granted exactly this.
func wire(env *boot.Env) httpapi.Endpoint {
	webhooks := dynamo.OpenWebhooks(env.AWS, env.String("WEBHOOKS_TABLE"))
	registry := webhook.NewRegistry(webhooks, nil, time.Now, rand.Reader) // no URL is taken here
	return httpapi.ListWebhooks(rand.Text, registry)
}
