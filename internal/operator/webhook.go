package operator

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"remit/internal/queue"
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

func (w window) log(ctx context.Context, out io.Writer) (*deployment, *webhook.Log, time.Time, time.Time, error) {
	d, err := w.open(ctx, out)
	if err != nil {
		return nil, nil, time.Time{}, time.Time{}, err
	}
	store, err := d.webhooks()
	if err != nil {
		return nil, nil, time.Time{}, time.Time{}, err
	}
	url, err := d.output("WebhookQueueUrl")
	jobs := queue.NewJobs(sqs.NewFromConfig(d.aws), url)
	now := time.Now()
	return d, webhook.NewLog(store, jobs, time.Now, rand.Reader), now.Add(-w.Since), now.Add(-w.Until), err
}

type webhookFailed struct{ window }

// Run lists the failed deliveries.
func (c *webhookFailed) Run(ctx context.Context, out io.Writer) error {
	d, log, from, to, err := c.log(ctx, out)
	if err != nil {
		return err
	}
	failed, err := log.Failed(ctx, d.owner(c.Merchant), c.Endpoint, from, to)
	if err != nil {
		return err
	}
	return d.show(rowsOfDeliveries(failed), deliveryText(failed))
}

type webhookResend struct {
	window
	Yes bool `help:"Do not ask."`
}

// Run resends the failed deliveries.
func (c *webhookResend) Run(ctx context.Context, out io.Writer) error {
	d, log, from, to, err := c.log(ctx, out)
	if err != nil {
		return err
	}
	failed, err := log.Failed(ctx, d.owner(c.Merchant), c.Endpoint, from, to)
	if err != nil {
		return err
	}
	if len(failed) == 0 {
		return d.show(rowsOfDeliveries(nil), "none failed: nothing to resend")
	}
	if err := agree(c.Yes, fmt.Sprintf("%s\nThese %d events go to %s again, with the same ids and bytes.", deliveryText(failed), len(failed), c.Endpoint)); err != nil {
		return err
	}
	sent, err := log.ResendFailed(ctx, d.owner(c.Merchant), c.Endpoint, from, to)
	if err != nil {
		return fmt.Errorf("after %d were resent (run it again to go on): %w", len(sent), err)
	}
	return d.show(rowsOfDeliveries(sent), fmt.Sprintf("%d resent", len(sent)))
}

func deliveryText(all []webhook.Delivery) string {
	var b strings.Builder
	for _, del := range all {
		why := ""
		if last, ok := del.LastAttempt(); ok {
			why = last.Error
		}
		fmt.Fprintf(&b, "%s  %s  %s  %s  %d attempts  %s\n", when(del.CreatedAt), del.Event.ID, del.Event.Type, del.Status, len(del.Attempts), why)
	}
	if len(all) == 0 {
		b.WriteString("none\n")
	}
	return b.String()
}
