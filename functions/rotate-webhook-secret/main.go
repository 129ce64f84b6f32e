// Command rotate-webhook-secret serves POST /webhooks/{id}/rotate-secret.
package main

import (
	"crypto/rand"
	"time"

	"remit/internal/boot"
	"remit/internal/dynamo"
	"remit/internal/httpapi"
	"remit/internal/kms"
	"remit/internal/meterenv"
	"remit/internal/webhook"
)

func main() { meterenv.HTTP(wire, time.Now) }

// wire names everything this function may touch. RotateWebhookSecretFunction in
// template.yaml is granted exactly this.
func wire(env *boot.Env) httpapi.Endpoint {
	webhooks := webhook.Sealed{Store: dynamo.OpenWebhooks(env.AWS, env.String("WEBHOOKS_TABLE"))}
	if key := env.Optional("KMS_KEY_ARN", ""); key != "" {
		webhooks.Seal = kms.OpenDataKeys(env.AWS, key).Seal
	}
	registry := webhook.NewRegistry(webhooks, nil, time.Now, rand.Reader) // no URL is taken here
	return httpapi.RotateWebhookSecret(rand.Text, registry)
}
