// Command test-webhook serves POST /webhooks/{id}/test.
package main

import (
	"crypto/rand"

	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/aws/apienv"
	"github.com/remit-payouts/remit/internal/aws/kms"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
)

func main() { apienv.HTTP(wire) }

func wire(env apienv.Env) httpapi.Endpoint {
	webhooks := webhook.Sealed{Store: env.Webhooks(), Open: kms.OpenSealer(env.AWS, "").Open}
	return httpapi.TestWebhook(&webhook.Tester{Store: webhooks, Sender: env.Sender(), Now: env.Now, Random: rand.Reader})
}
