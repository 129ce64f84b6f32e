// Command list-deliveries serves GET /webhooks/{id}/deliveries.
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

// wire names everything this function may touch. ListDeliveriesFunction in
// template.yaml is granted exactly this.
func wire(env *boot.Env) http.Handler {
	webhooks := dynamo.NewWebhooks(dynamodb.NewFromConfig(env.AWS), env.String("WEBHOOKS_TABLE"))
	log := webhook.NewLog(webhooks, nil, time.Now, rand.Reader) // nothing is sent from here
	return meterenv.Refusals(env, httpapi.ListDeliveries(rand.Text, log))
}
