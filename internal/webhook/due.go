package webhook

import (
	"context"
	"time"
)

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
// returns how many. It is to be called every minute; several at a time make jobs
// twice, which do no harm. After an error the rest waits for the next call.
func (p *Pusher) PushDue(ctx context.Context, now time.Time, limit int) (int, error) {
	panic("TODO")
}
