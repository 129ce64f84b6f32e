// Command create-recipient serves POST /recipients.
package main

import (
	"log/slog"

	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/aws/boot"
	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/aws/meterenv"
	"github.com/remit-payouts/remit/internal/aws/queue"
	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/merchants/recipient"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
)

func main() { meterenv.HTTP(wire) }

func wire(env *boot.Env) httpapi.Endpoint {
	keys := dynamo.OpenAPIKeys(env.AWS, env.String("API_KEYS_TABLE"))
	book := recipient.NewAddressBook(keys, settings.CachedKeys(keys, false, env.Now, slog.Default()), env.Now)
	webhooks := dynamo.OpenWebhooks(env.AWS, env.String("WEBHOOKS_TABLE"))
	events := webhook.NewPublisher(webhooks, queue.OpenJobs(env.AWS, env.String("WEBHOOK_QUEUE_URL")))
	payments := dynamo.OpenPayments(env.AWS, env.String("PAYMENTS_TABLE"))
	return httpapi.CreateRecipient(book, payments, events, boot.Assets(env), env.Now)
}
