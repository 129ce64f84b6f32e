// Package bus gives events to an EventBridge bus.
package bus

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge/types"

	"github.com/remit-payouts/remit/internal/merchants/webhook"
)

const source = "remit"

// After a failure the bus is not called for a cooldown: its jobs would take time from webhooks.
const cooldown = 30 * time.Second

// A Bus is an EventBridge bus. It is safe for concurrent use.
type Bus struct {
	client *eventbridge.Client
	arn    string
	now    func() time.Time
	until  atomic.Int64 // the end of the cooldown, in Unix nanoseconds
}

// Open returns the bus with an ARN. A failed call is not repeated: the job's next turn is the repetition.
func Open(config aws.Config, arn string, now func() time.Time) *Bus {
	return &Bus{client: eventbridge.NewFromConfig(config, func(o *eventbridge.Options) { o.RetryMaxAttempts = 1 }), arn: arn, now: now}
}

// Put implements webhook.Bus. An event has at most webhook.MaxBody: an entry must be smaller than 256 KB (Amazon
// EventBridge User Guide, "Calculating Amazon EventBridge PutEvents event entry size").
func (b *Bus) Put(ctx context.Context, e webhook.Event) error {
	if b.now().UnixNano() < b.until.Load() {
		return fmt.Errorf("giving %s to %s: it failed a moment ago", e.ID, b.arn)
	}
	out, err := b.client.PutEvents(ctx, &eventbridge.PutEventsInput{Entries: []types.PutEventsRequestEntry{{
		EventBusName: &b.arn, Source: aws.String(source), DetailType: &e.Type, Detail: aws.String(string(e.Body)), Time: &e.At,
	}}})
	if err == nil && (len(out.Entries) != 1 || out.Entries[0].EventId == nil) {
		answer, _ := json.Marshal(out.Entries)
		err = fmt.Errorf("the bus refused it: %s", answer)
	}
	if err != nil {
		b.until.Store(b.now().Add(cooldown).UnixNano())
		slog.WarnContext(ctx, "the event bus failed", "event", e.ID, "err", err)
		return fmt.Errorf("giving %s to %s: %w", e.ID, b.arn, err)
	}
	return nil
}
