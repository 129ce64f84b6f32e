// Command issue-api-key serves POST /api-keys.
package main

import (
	"crypto/rand"
	"time"

	"remit/internal/apikey"
	"remit/internal/boot"
	"remit/internal/dynamo"
	"remit/internal/httpapi"
	"remit/internal/meterenv"
	"remit/internal/queue"
	"remit/internal/webhook"
)

func main() { meterenv.HTTP(wire, time.Now) }

// wire names everything this function may touch. IssueApiKeyFunction in
// template.yaml is granted exactly this.
func wire(env *boot.Env) httpapi.Endpoint {
	keys := dynamo.OpenAPIKeys(env.AWS, env.String("API_KEYS_TABLE"))
	registry := apikey.NewRegistry(keys, boot.Parse(env, "MODE", apikey.ParseMode), time.Now, rand.Reader)
	webhooks := dynamo.OpenWebhooks(env.AWS, env.String("WEBHOOKS_TABLE"))
	events := webhook.NewPublisher(webhooks, queue.OpenJobs(env.AWS, env.String("WEBHOOK_QUEUE_URL")))
	return httpapi.IssueAPIKey(rand.Text, registry, events)
}
