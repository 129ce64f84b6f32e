// Package webhook has the commands that list merchants' endpoints, and list and resend webhooks that failed.
package webhook

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/cli/operator/change"
	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
)

// Commands is `remit webhooks`.
type Commands struct {
	List   list                   `cmd:"" help:"List a merchant's endpoints." example:"mer_1"`
	Failed failed                 `cmd:"" help:"List the events that never arrived." example:"mer_1 we_1"`
	Resend change.Command[resend] `cmd:"" help:"Send again what webhooks failed lists." example:"mer_1 we_1"`
}

type list struct {
	deployed.Target
	Merchant string `arg:"" help:"The merchant's id, mer_…"`
}

func (c *list) Run(ctx context.Context, d *deployed.Deployment) error {
	_, err := d.KeysOf(ctx, c.Merchant)
	all, unread := d.Webhooks.Endpoints(ctx, d.Owner(c.Merchant))
	if err = cmp.Or(err, unread); err != nil {
		return err
	}
	rows, text := []map[string]any{}, ""
	for _, e := range all {
		rows = append(rows, map[string]any{"id": e.ID, "status": e.Status, "url": e.URL, "event_types": e.EventTypes})
		text += fmt.Sprintf("%s  %-8s  %s\n", e.ID, e.Status, e.URL)
	}
	return d.Show(rows, text)
}

type window struct {
	Merchant string        `arg:"" help:"The merchant's id, mer_…"`
	Endpoint string        `arg:"" help:"The endpoint's id, we_…"`
	Since    time.Duration `default:"24h" help:"How far back: events given up since then."`
}

func log(d *deployed.Deployment) *webhook.Log {
	return &webhook.Log{Store: d.Webhooks, Queue: d.Jobs, Now: time.Now, Random: rand.Reader}
}

func (w window) abandoned(ctx context.Context, d *deployed.Deployment) ([]webhook.Delivery, error) {
	now := time.Now()
	lost := now.Add(-time.Hour) // a delivery so overdue has lost its job: the queue gave it up, or was emptied
	return log(d).Failed(ctx, d.Owner(w.Merchant), w.Endpoint, now.Add(-w.Since), lost, 100_000)
}

type failed struct {
	deployed.Target
	window
}

func (c *failed) Run(ctx context.Context, d *deployed.Deployment) error {
	all, err := c.abandoned(ctx, d)
	if err != nil {
		return err
	}
	return d.Show(Deliveries(all))
}

type resend struct{ window }

func (c resend) Change(ctx context.Context, d *deployed.Deployment) (change.Change, error) {
	all, err := c.abandoned(ctx, d)
	if len(all) == 0 {
		return change.None("none was given up"), err
	}
	_, text := Deliveries(all)
	return change.Change{
		Consequences: fmt.Sprintf("%s\nEvents that go to %[3]s again, unchanged: %[2]d.", text, len(all), c.Endpoint),
		Apply: func(ctx context.Context) (change.Answer, error) {
			sent, err := log(d).ResendAll(ctx, all)
			if err != nil {
				err = fmt.Errorf("after %d were resent (run it again to go on): %w", len(sent), err)
			}
			rows, _ := Deliveries(sent)
			return change.Answered(err, rows, fmt.Sprintf("%d resent", len(sent)))
		},
	}, err
}

// A Delivery is a delivery as --json shows it.
type Delivery struct {
	Endpoint string `json:"endpoint_id"`
	httpapi.Delivery
}

// Deliveries returns deliveries as --json shows them, and a line of text for each.
func Deliveries(all []webhook.Delivery) (rows []Delivery, text string) {
	rows = []Delivery{}
	for _, d := range all {
		rows = append(rows, Delivery{d.Endpoint, httpapi.DeliveryOf(d)})
		last, _ := d.LastAttempt()
		text += fmt.Sprintf("%s  %s  %s  %s  %d attempts  %s\n", deployed.Stamp(d.CreatedAt), d.Event.ID, d.Event.Type,
			d.Status, len(d.Attempts), last.Error)
	}
	return rows, text
}
