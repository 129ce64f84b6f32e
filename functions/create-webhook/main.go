// Command create-webhook serves POST /webhooks.
package main

import (
	"crypto/rand"

	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/aws/boot"
	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/aws/kms"
	"github.com/remit-payouts/remit/internal/aws/meterenv"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/merchants/webhook/guard"
)

func main() { meterenv.HTTP(wire) }

func wire(env *boot.Env) httpapi.Endpoint {
	webhooks := webhook.Sealed{Store: dynamo.OpenWebhooks(env.AWS, env.String("WEBHOOKS_TABLE"))}
	if key := env.Optional("KMS_KEY_ARN", ""); key != "" {
		webhooks.Seal = kms.OpenDataKeys(env.AWS, key).Seal
	}
	registry := webhook.NewRegistry(webhooks, guard.NewClient(env.Optional("WEBHOOK_LOOPBACK", "refused") == "allowed",
		env.String("MODE") == "live"), env.Now, rand.Reader)
	return httpapi.CreateWebhook(registry)
}
