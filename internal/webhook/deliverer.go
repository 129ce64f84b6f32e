package webhook

import (
	"context"
	"time"
)

// A Deliverer does the jobs that a Queue carries.
type Deliverer struct {
	store  Store
	queue  Queue
	sender Sender
	meter  Meter
	now    func() time.Time
	jitter func() float64
}

// NewDeliverer returns a deliverer. jitter returns numbers in [0, 1), as
// rand.Float64 of math/rand/v2 does; meter may be NoMeter{}.
func NewDeliverer(store Store, queue Queue, sender Sender, meter Meter, now func() time.Time, jitter func() float64) *Deliverer {
	return &Deliverer{store, queue, sender, meter, now, jitter}
}

// Deliver does one job: it posts the delivery if an attempt is due, and stores
// what came of it and when the next one is due. A nil error means that the job
// is done and may be deleted from the queue, whether or not the endpoint took
// the message. After any error the job must be done again: the message may have
// been posted, and will be posted again. ErrJob and ErrDeliveryNotFound say
// that doing it again is of no use.
func (d *Deliverer) Deliver(ctx context.Context, job string) error {
	panic("TODO")
}
