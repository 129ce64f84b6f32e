// Command create-recipient serves POST /recipients.
package main

import (
	"time"

	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/aws/boot"
	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/aws/meterenv"
	"github.com/remit-payouts/remit/internal/aws/queue"
	"github.com/remit-payouts/remit/internal/aws/railenv"
	"github.com/remit-payouts/remit/internal/merchants/recipient"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
)

func main() { meterenv.HTTP(wire) }

func wire(env *boot.Env) httpapi.Endpoint {
	keys := dynamo.OpenAPIKeys(env.AWS, env.String("API_KEYS_TABLE"))
	book := recipient.NewAddressBook(keys, time.Duration(env.Int("RECIPIENT_HOLD_SECONDS"))*time.Second, env.Now)
	webhooks := dynamo.OpenWebhooks(env.AWS, env.String("WEBHOOKS_TABLE"))
	events := webhook.NewPublisher(webhooks, queue.OpenJobs(env.AWS, env.String("WEBHOOK_QUEUE_URL")))
	payments := dynamo.OpenPayments(env.AWS, env.String("PAYMENTS_TABLE"))
	return httpapi.CreateRecipient(book, payments, events, railenv.Assets(env), env.Now)
}
