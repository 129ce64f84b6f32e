// Command create-webhook serves POST /webhooks.
package main

import (
	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/aws/apienv"
	"github.com/remit-payouts/remit/internal/aws/kms"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
)

func main() { apienv.HTTP(wire) }

func wire(env apienv.Env) httpapi.Endpoint {
	webhooks := webhook.Sealed{Store: env.Webhooks()}
	if key := env.Optional("KMS_KEY_ARN", ""); key != "" {
		webhooks.Seal = kms.OpenSealer(env.AWS, key).Seal
	}
	return httpapi.CreateWebhook(env.Endpoints(webhooks, env.Sender()))
}
