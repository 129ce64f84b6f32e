// Command resend-delivery serves POST /webhooks/{id}/deliveries/{delivery_id}/resend.
package main

import (
	"crypto/rand"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"remit/internal/boot"
	"remit/internal/dynamo"
	"remit/internal/httpapi"
	"remit/internal/meterenv"
	"remit/internal/queue"
	"remit/internal/webhook"
)

func main() { boot.HTTP(wire) }

// wire names everything this function may touch. ResendDeliveryFunction in
// template.yaml is granted exactly this.
func wire(env *boot.Env) http.Handler {
	webhooks := dynamo.NewWebhooks(dynamodb.NewFromConfig(env.AWS), env.String("WEBHOOKS_TABLE"))
	jobs := queue.NewJobs(sqs.NewFromConfig(env.AWS), env.String("WEBHOOK_QUEUE_URL"))
	log := webhook.NewLog(webhooks, jobs, time.Now, rand.Reader)
	return meterenv.Refusals(env, httpapi.ResendDelivery(rand.Text, log))
}
