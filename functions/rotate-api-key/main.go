// Command rotate-api-key serves POST /api-keys/{id}/rotate.
package main

import (
	"crypto/rand"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"remit/internal/apikey"
	"remit/internal/boot"
	"remit/internal/dynamo"
	"remit/internal/httpapi"
	"remit/internal/meterenv"
	"remit/internal/queue"
	"remit/internal/webhook"
)

func main() { boot.HTTP(wire) }

// wire names everything this function may touch. RotateApiKeyFunction in
// template.yaml is granted exactly this.
func wire(env *boot.Env) http.Handler {
	db := dynamodb.NewFromConfig(env.AWS)
	keys := dynamo.NewAPIKeys(db, env.String("API_KEYS_TABLE"))
	registry := apikey.NewRegistry(keys, boot.Parse(env, "MODE", apikey.ParseMode), time.Now, rand.Reader)
	webhooks := dynamo.NewWebhooks(db, env.String("WEBHOOKS_TABLE"))
	events := webhook.NewPublisher(webhooks, queue.NewJobs(sqs.NewFromConfig(env.AWS), env.String("WEBHOOK_QUEUE_URL")))
	return meterenv.Refusals(env, httpapi.RotateAPIKey(rand.Text, registry, events))
}
