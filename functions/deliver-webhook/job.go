package main

import (
	"context"
	"errors"

	"remit/internal/boot"
	"remit/internal/emf"
	"remit/internal/webhook"
)

// do does one job, then writes its metrics.
func do(d *webhook.Deliverer, meter *emf.Meter) boot.Job {
	return func(ctx context.Context, job string) error {
		return errors.Join(d.Deliver(ctx, job), meter.Flush())
	}
}
