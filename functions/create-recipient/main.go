// Command create-recipient serves POST /recipients.
package main

import (
	"crypto/rand"
	"log/slog"
	"time"

	"remit/internal/boot"
	"remit/internal/dynamo"
	"remit/internal/httpapi"
	"remit/internal/meterenv"
	"remit/internal/queue"
	"remit/internal/recipient"
	"remit/internal/settings"
	"remit/internal/token"
	"remit/internal/webhook"
)

func main() { meterenv.HTTP(wire, time.Now) }

// wire names everything this function may touch. CreateRecipientFunction in
// template.yaml is granted exactly this.
func wire(env *boot.Env) httpapi.Endpoint {
	keys := dynamo.OpenAPIKeys(env.AWS, env.String("API_KEYS_TABLE"))
	book := recipient.NewBook(keys, settings.CachedKeys(keys, false, time.Now, slog.Default()), time.Now)
	webhooks := dynamo.OpenWebhooks(env.AWS, env.String("WEBHOOKS_TABLE"))
	events := webhook.NewPublisher(webhooks, queue.OpenJobs(env.AWS, env.String("WEBHOOK_QUEUE_URL")))
	asset := token.Token{Contract: boot.Parse(env, "TOKEN_ADDRESS", token.ParseAddress)}
	return httpapi.CreateRecipient(rand.Text, book, events, asset, time.Now)
}
