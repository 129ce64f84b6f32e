// Command update-webhook serves POST /webhooks/{id}.
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
	"remit/internal/webhook/guard"
)

func main() { boot.HTTP(wire) }

// wire names everything this function may touch. UpdateWebhookFunction in
// template.yaml is granted exactly this.
func wire(env *boot.Env) http.Handler {
	webhooks := dynamo.NewWebhooks(dynamodb.NewFromConfig(env.AWS), env.String("WEBHOOKS_TABLE"))
	registry := webhook.NewRegistry(webhooks, guard.NewClient(env.Optional("WEBHOOK_LOOPBACK", "refused") == "allowed", env.String("MODE") == "live"), time.Now, rand.Reader)
	return meterenv.Refusals(env, httpapi.UpdateWebhook(rand.Text, registry))
}
