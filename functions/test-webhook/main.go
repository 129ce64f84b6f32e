// Command test-webhook serves POST /webhooks/{id}/test.
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
	webhooks := dynamo.OpenWebhooks(env.AWS, env.String("WEBHOOKS_TABLE"))
	tester := webhook.NewTester(webhook.Sealed{Store: webhooks, Open: kms.OpenDataKeys(env.AWS, "").Open},
		guard.NewClient(env.Optional("WEBHOOK_LOOPBACK", "refused") == "allowed", env.String("MODE") == "live"), env.Now, rand.Reader)
	return httpapi.TestWebhook(tester)
}
