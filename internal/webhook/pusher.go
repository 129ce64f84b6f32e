package webhook

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// pushWidth is the number of jobs that a Pusher makes at the same time.
const pushWidth = 16

// A Pusher makes jobs of parked deliveries whose time has come.
type Pusher struct {
	store DueStore
	queue Queue
	meter Meter
}

// NewPusher returns a pusher from store to queue; meter may be NoMeter{}.
func NewPusher(store DueStore, queue Queue, meter Meter) *Pusher {
	return &Pusher{store, queue, meter}
}

// PushDue enqueues at most limit parked deliveries that are due at now and
// returns their number. It is to be called every minute. Two calls at a time
// may make two jobs of a delivery, which does no harm. After an error the other
// deliveries wait for the next call.
func (p *Pusher) PushDue(ctx context.Context, now time.Time, limit int) (int, error) {
	due, dueErr := p.store.Due(ctx, now, limit)
	if dueErr != nil {
		dueErr = fmt.Errorf("looking for due deliveries: %w", dueErr)
	}
	var age time.Duration
	for _, d := range due {
		age = max(age, now.Sub(d.At))
	}
	p.meter.OldestDue(age)

	var pushed atomic.Int64
	var group errgroup.Group
	group.SetLimit(pushWidth)
	for _, d := range due {
		group.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			// A crash between the two calls leaves the delivery parked, and the
			// next PushDue makes a second job of it.
			if err := p.queue.Enqueue(ctx, d.Ref.String(), 0); err != nil {
				return fmt.Errorf("pushing %s: %w", d.Delivery, err)
			}
			pushed.Add(1)
			if err := p.store.Unpark(ctx, d); err != nil {
				return fmt.Errorf("pushing %s: %w", d.Delivery, err)
			}
			return nil
		})
	}
	err := errors.Join(dueErr, group.Wait())
	return int(pushed.Load()), err
}
