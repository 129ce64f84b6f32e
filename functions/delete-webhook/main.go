// Command delete-webhook serves POST /webhooks/{id}/delete.
package main

import (
	"crypto/rand"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"remit/internal/boot"
	"remit/internal/dynamo"
	"remit/internal/httpapi"
	"remit/internal/meterenv"
	"remit/internal/webhook"
)

func main() { boot.HTTP(wire) }

// wire names everything this function may touch. DeleteWebhookFunction in
// template.yaml is granted exactly this.
func wire(env *boot.Env) http.Handler {
	webhooks := dynamo.NewWebhooks(dynamodb.NewFromConfig(env.AWS), env.String("WEBHOOKS_TABLE"))
	registry := webhook.NewRegistry(webhooks, nil, time.Now, rand.Reader) // no URL is taken here
	return meterenv.Refusals(env, httpapi.DeleteWebhook(rand.Text, registry))
}
