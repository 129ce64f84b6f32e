// Command rotate-webhook-secret serves POST /webhooks/{id}/rotate-secret.
package main

import (
	"crypto/rand"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"remit/internal/boot"
	"remit/internal/dynamo"
	"remit/internal/httpapi"
	"remit/internal/kms"
	"remit/internal/meterenv"
	"remit/internal/webhook"
)

func main() { boot.HTTP(wire) }

// wire names everything this function may touch. RotateWebhookSecretFunction in
// template.yaml is granted exactly this.
func wire(env *boot.Env) http.Handler {
	webhooks := webhook.Sealed{Store: dynamo.NewWebhooks(dynamodb.NewFromConfig(env.AWS), env.String("WEBHOOKS_TABLE"))}
	if key := env.Optional("KMS_KEY_ARN", ""); key != "" {
		webhooks.Seal = kms.OpenDataKeys(env.AWS, key).Seal
	}
	registry := webhook.NewRegistry(webhooks, nil, time.Now, rand.Reader) // no URL is taken here
	return meterenv.Refusals(env, httpapi.RotateWebhookSecret(rand.Text, registry))
}
