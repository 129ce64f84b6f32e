// Command deliver-webhook posts webhooks, one for each job of its queue.
package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"remit/internal/boot"
	"remit/internal/dynamo"
	"remit/internal/emf"
	"remit/internal/queue"
	"remit/internal/webhook"
	"remit/internal/webhook/guard"
)

func main() { boot.Queue(wire) }

// wire names everything this function may touch.
func wire(_ context.Context, env *boot.Env) (boot.Job, error) {
	webhooks := dynamo.NewWebhooks(dynamodb.NewFromConfig(env.AWS), env.String("WEBHOOKS_TABLE"))
	jobs, meter := queue.NewJobs(sqs.NewFromConfig(env.AWS), env.String("WEBHOOK_QUEUE_URL")), emf.New(os.Stdout, env.String("STACK"), time.Now)
	do := webhook.NewDeliverer(webhooks, jobs, guard.NewClient(false), meter, time.Now, rand.Float64).Deliver
	return func(ctx context.Context, job string) error { return errors.Join(do(ctx, job), meter.Flush()) }, nil
}
