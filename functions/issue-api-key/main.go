// Command issue-api-key serves POST /api-keys.
package main

import (
	"crypto/rand"

	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/aws/boot"
	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/aws/meterenv"
	"github.com/remit-payouts/remit/internal/aws/queue"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
)

func main() { meterenv.HTTP(wire) }

func wire(env *boot.Env) httpapi.Endpoint {
	keys := dynamo.OpenAPIKeys(env.AWS, env.String("API_KEYS_TABLE"))
	registry := apikey.NewRegistry(keys, boot.Parse(env, "MODE", apikey.ParseMode), env.Now, rand.Reader)
	webhooks := dynamo.OpenWebhooks(env.AWS, env.String("WEBHOOKS_TABLE"))
	events := webhook.NewPublisher(webhooks, queue.OpenJobs(env.AWS, env.String("WEBHOOK_QUEUE_URL")))
	return httpapi.IssueAPIKey(registry, events, boot.Assets(env))
}
