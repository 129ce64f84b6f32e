package main

import (
	"context"
	"errors"

	"github.com/remit-payouts/remit/internal/aws/boot"
	"github.com/remit-payouts/remit/internal/aws/emf"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
)

func do(d *webhook.Deliverer, meter *emf.Meter) boot.Job {
	return func(ctx context.Context, job string) error {
		return errors.Join(d.Deliver(ctx, job), meter.Flush())
	}
}
