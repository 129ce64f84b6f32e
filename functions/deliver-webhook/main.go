// Command deliver-webhook posts webhooks, one for each job of its queue.
package main

import (
	"context"
	"errors"
	"math/rand/v2"

	"github.com/remit-payouts/remit/internal/aws/boot"
	"github.com/remit-payouts/remit/internal/aws/bus"
	"github.com/remit-payouts/remit/internal/aws/eventenv"
	"github.com/remit-payouts/remit/internal/aws/kms"
	"github.com/remit-payouts/remit/internal/aws/tableenv"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
)

func main() { boot.Start(wire, boot.Batches) }

func wire(started *boot.Env) boot.Job {
	env := tableenv.Env{Env: started}
	webhooks := webhook.Sealed{Store: env.Webhooks(), Open: kms.OpenSealer(env.AWS, "").Open}
	meter := env.Meter()
	deliverer := &webhook.Deliverer{Store: webhooks, Queue: eventenv.Jobs(env), Sender: env.Sender(), Meter: meter,
		Now: env.Now, Jitter: rand.Float64}
	if arn := env.Optional("EVENT_BUS", ""); arn != "" {
		deliverer.Bus = bus.Open(env.AWS, arn, env.Now)
	}
	return func(ctx context.Context, job string) error {
		return errors.Join(deliverer.Deliver(ctx, job), meter.Flush())
	}
}
