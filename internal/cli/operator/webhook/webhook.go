// Package webhook has the commands that list and resend webhooks that failed.
package webhook

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/remit-payouts/remit/internal/cli/operator/change"
	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	"github.com/remit-payouts/remit/internal/cli/operator/dossier"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
)

// Commands is `remit webhooks`.
type Commands struct {
	Failed webhookFailed                 `cmd:"" help:"List the events that never arrived." example:"mer_1 we_1"`
	Resend change.Command[webhookResend] `cmd:"" help:"Send the events again that failed lists." example:"mer_1 we_1"`
}

// A window is a span of time of one endpoint's deliveries.
type window struct {
	Merchant string        `arg:"" help:"The merchant's id, mer_…"`
	Endpoint string        `arg:"" help:"The endpoint's id, we_…"`
	Since    time.Duration `default:"24h" help:"How far back to look."`
	Until    time.Duration `default:"0s" help:"How long ago to stop looking."`
}

// failed returns the window's abandoned deliveries, and its ends. If there are none, text
// counts the deliveries that Remit still retries.
func (w window) failed(ctx context.Context, d *deployed.Deployment, log *webhook.Log) (failed []webhook.Delivery, from, to time.Time,
	text string, err error) {
	now := time.Now()
	from, to = now.Add(-w.Since), now.Add(-w.Until)
	failed, err = log.Failed(ctx, d.Owner(w.Merchant), w.Endpoint, from, to)
	if err != nil || len(failed) > 0 {
		return failed, from, to, dossier.DeliveriesText(failed), err
	}
	recent, err := log.Deliveries(ctx, d.Owner(w.Merchant), w.Endpoint)
	pending := 0
	for _, r := range recent {
		if r.Status == webhook.Pending {
			pending++
		}
	}
	text = "none was given up"
	if pending > 0 {
		text += fmt.Sprintf("; %d of the newest %d are still being tried, without being resent", pending, len(recent))
	}
	return nil, from, to, text, err
}

func deliveryLog(d *deployed.Deployment) *webhook.Log {
	return webhook.NewLog(d.Webhooks, d.Jobs, time.Now, rand.Reader)
}

type webhookFailed struct {
	deployed.Target
	window
}

// Run lists the failed deliveries.
func (c *webhookFailed) Run(ctx context.Context, d *deployed.Deployment) error {
	failed, _, _, text, err := c.failed(ctx, d, deliveryLog(d))
	if err != nil {
		return err
	}
	return d.Show(dossier.Deliveries(failed), text)
}

type webhookResend struct{ window }

// Change resends the failed deliveries.
func (c webhookResend) Change(ctx context.Context, d *deployed.Deployment) (change.Change, error) {
	log := deliveryLog(d)
	failed, from, to, text, err := c.failed(ctx, d, log)
	if len(failed) == 0 {
		return change.None(dossier.Deliveries(nil), text), err
	}
	return change.Change{
		Consequences: fmt.Sprintf("%s\nThese %d events go to %s again, with the same ids and bytes.", text, len(failed), c.Endpoint),
		Apply: func(ctx context.Context) (change.Answer, error) {
			sent, err := log.ResendFailed(ctx, d.Owner(c.Merchant), c.Endpoint, from, to)
			if err != nil {
				err = fmt.Errorf("after %d were resent (run it again to go on): %w", len(sent), err)
			}
			return change.Answered(err, dossier.Deliveries(sent), fmt.Sprintf("%d resent", len(sent)))
		},
	}, err
}
