// Command create-recipient serves POST /recipients.
package main

import (
	"crypto/rand"
	"log/slog"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

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

func main() { boot.HTTP(wire) }

// wire names everything this function may touch. CreateRecipientFunction in
// template.yaml is granted exactly this.
func wire(env *boot.Env) http.Handler {
	db := dynamodb.NewFromConfig(env.AWS)
	keys := dynamo.NewAPIKeys(db, env.String("API_KEYS_TABLE"))
	book := recipient.NewBook(keys, settings.CachedKeys(keys, false, time.Now, slog.Default()), time.Now)
	webhooks := dynamo.NewWebhooks(db, env.String("WEBHOOKS_TABLE"))
	events := webhook.NewPublisher(webhooks, queue.NewJobs(sqs.NewFromConfig(env.AWS), env.String("WEBHOOK_QUEUE_URL")))
	asset := token.Token{Contract: boot.Parse(env, "TOKEN_ADDRESS", token.ParseAddress)}
	return meterenv.Refusals(env, time.Now, httpapi.CreateRecipient(rand.Text, book, events, asset, time.Now))
}
