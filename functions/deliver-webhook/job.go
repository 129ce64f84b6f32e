package main

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"remit/internal/boot"
	"remit/internal/emf"
	"remit/internal/queue"
	"remit/internal/webhook"
)

func jobsOf(env *boot.Env) *queue.Jobs {
	return queue.NewJobs(sqs.NewFromConfig(env.AWS), env.String("WEBHOOK_QUEUE_URL"))
}

// do does one job, then writes its metrics.
func do(d *webhook.Deliverer, meter *emf.Meter) boot.Job {
	return func(ctx context.Context, job string) error {
		return errors.Join(d.Deliver(ctx, job), meter.Flush())
	}
}
