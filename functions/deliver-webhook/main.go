// Command deliver-webhook posts webhooks, one for each job of its queue.
package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"

	"github.com/remit-payouts/remit/internal/aws/boot"
	"github.com/remit-payouts/remit/internal/aws/bus"
	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/aws/emf"
	"github.com/remit-payouts/remit/internal/aws/kms"
	"github.com/remit-payouts/remit/internal/aws/queue"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/merchants/webhook/guard"
)

func main() { boot.Queue(wire) }

func wire(env *boot.Env) boot.Job {
	webhooks := webhook.Sealed{Store: dynamo.OpenWebhooks(env.AWS, env.String("WEBHOOKS_TABLE")), Open: kms.OpenDataKeys(env.AWS, "").Open}
	jobs := queue.OpenJobs(env.AWS, env.String("WEBHOOK_QUEUE_URL"))
	sender := guard.NewClient(env.Optional("WEBHOOK_LOOPBACK", "refused") == "allowed", env.String("MODE") == "live")
	meter := emf.New(os.Stdout, env.String("STACK"), env.Now)
	deliverer := webhook.NewDeliverer(webhooks, jobs, sender, meter, env.Now, rand.Float64)
	if arn := env.Optional("EVENT_BUS", ""); arn != "" {
		deliverer = deliverer.WithBus(bus.Open(env.AWS, arn, env.Now))
	}
	return func(ctx context.Context, job string) error {
		return errors.Join(deliverer.Deliver(ctx, job), meter.Flush())
	}
}
