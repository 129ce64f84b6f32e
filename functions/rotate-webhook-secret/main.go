// Command rotate-webhook-secret serves POST /webhooks/{id}/rotate-secret.
package main

import (
	"crypto/rand"

	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/aws/boot"
	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/aws/kms"
	"github.com/remit-payouts/remit/internal/aws/meterenv"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
)

func main() { meterenv.HTTP(wire) }

func wire(env *boot.Env) httpapi.Endpoint {
	webhooks := webhook.Sealed{Store: dynamo.OpenWebhooks(env.AWS, env.String("WEBHOOKS_TABLE"))}
	if key := env.Optional("KMS_KEY_ARN", ""); key != "" {
		webhooks.Seal = kms.OpenDataKeys(env.AWS, key).Seal
	}
	return httpapi.RotateWebhookSecret(webhook.NewRegistry(webhooks, nil, env.Now, rand.Reader)) // no URL is taken here
}
