package operator

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"remit/internal/webhook"
)

// Webhooks is `remit webhooks`.
type Webhooks struct {
	Failed webhookFailed `cmd:"" help:"List what an endpoint was never told in a window of time."`
	Resend webhookResend `cmd:"" help:"Send all of that again."`
}

// A window is a span of time of one endpoint's deliveries.
type window struct {
	Target
	Merchant string        `arg:"" help:"The merchant's id, mer_…"`
	Endpoint string        `arg:"" help:"The endpoint's id, we_…"`
	Since    time.Duration `default:"24h" help:"How far back to look."`
	Until    time.Duration `default:"0s" help:"How long ago to stop looking."`
}

// log opens the log of deliveries and returns it with the window's ends.
func (w window) log(d *deployment) (log *webhook.Log, from, to time.Time, err error) {
	now := time.Now()
	from, to = now.Add(-w.Since), now.Add(-w.Until)
	store, err := d.webhooks()
	if err != nil {
		return nil, from, to, err
	}
	jobs, err := d.jobs()
	return webhook.NewLog(store, jobs, time.Now, rand.Reader), from, to, err
}

type webhookFailed struct{ window }

// Run lists the failed deliveries.
func (c *webhookFailed) Run(ctx context.Context, d *deployment) error {
	log, from, to, err := c.log(d)
	if err != nil {
		return err
	}
	failed, err := log.Failed(ctx, d.owner(c.Merchant), c.Endpoint, from, to)
	if err != nil {
		return err
	}
	if len(failed) == 0 {
		return d.showNone(ctx, log, c.window)
	}
	return d.show(rowsOf(failed), textOf(failed))
}

// showNone says that no delivery has failed, and how many may still.
func (d *deployment) showNone(ctx context.Context, log *webhook.Log, w window) error {
	recent, err := log.Deliveries(ctx, d.owner(w.Merchant), w.Endpoint)
	if err != nil {
		return err
	}
	text, pending := "none was given up", 0
	for _, r := range recent {
		if r.Status == webhook.Pending {
			pending++
		}
	}
	if pending > 0 {
		text += fmt.Sprintf("; %d of the newest %d are still being tried, without being resent", pending, len(recent))
	}
	return d.show(rowsOf(nil), text)
}

type webhookResend struct {
	window
	Yes bool `help:"Do not ask."`
}

// Run resends the failed deliveries.
func (c *webhookResend) Run(ctx context.Context, d *deployment) error {
	log, from, to, err := c.log(d)
	if err != nil {
		return err
	}
	failed, err := log.Failed(ctx, d.owner(c.Merchant), c.Endpoint, from, to)
	if err != nil {
		return err
	}
	if len(failed) == 0 {
		return d.showNone(ctx, log, c.window)
	}
	if err := d.agree(c.Yes, fmt.Sprintf("%s\nThese %d events go to %s again, with the same ids and bytes.", textOf(failed), len(failed),
		c.Endpoint)); err != nil {
		return err
	}
	sent, err := log.ResendFailed(ctx, d.owner(c.Merchant), c.Endpoint, from, to)
	if err != nil {
		return fmt.Errorf("after %d were resent (run it again to go on): %w", len(sent), err)
	}
	return d.show(rowsOf(sent), fmt.Sprintf("%d resent", len(sent)))
}

// A deliveryRow is a delivery as --json shows it. Names are those of the API.
type deliveryRow struct {
	ID            string                 `json:"id"`
	Endpoint      string                 `json:"endpoint_id"`
	EventID       string                 `json:"event_id"`
	EventType     string                 `json:"event_type"`
	Status        webhook.DeliveryStatus `json:"status"`
	CreatedAt     stamp                  `json:"created_at"`
	NextAttemptAt stamp                  `json:"next_attempt_at"`
	Attempts      []attemptLog           `json:"attempts"`
}

type attemptLog struct {
	At       stamp  `json:"at"`
	Status   int    `json:"status_code"` // 0 when there was no answer
	Duration int64  `json:"duration_ms"`
	Error    string `json:"error"`
}

func rowsOf(all []webhook.Delivery) []deliveryRow {
	rows := []deliveryRow{}
	for _, d := range all {
		attempts := []attemptLog{}
		for _, a := range d.Attempts {
			attempts = append(attempts, attemptLog{stamp(a.At), a.StatusCode, a.Duration.Milliseconds(), a.Error})
		}
		rows = append(rows, deliveryRow{d.Delivery, d.Endpoint, d.Event.ID, d.Event.Type, d.Status, stamp(d.CreatedAt), stamp(d.NextAttemptAt),
			attempts})
	}
	return rows
}

func textOf(all []webhook.Delivery) string {
	var b strings.Builder
	for _, d := range all {
		last, _ := d.LastAttempt()
		fmt.Fprintf(&b, "%s  %s  %s  %s  %d attempts  %s\n", stamp(d.CreatedAt), d.Event.ID, d.Event.Type, d.Status, len(d.Attempts), last.Error)
	}
	return b.String()
}
