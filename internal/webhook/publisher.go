package webhook

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A Publisher publishes events to the endpoints that want them.
type Publisher struct {
	store PublisherStore
	queue Queue
}

// A PublisherStore is what a Publisher asks of a Store.
type PublisherStore interface {
	Endpoints(ctx context.Context, o Owner) ([]Endpoint, error)
	AddDeliveries(ctx context.Context, ds []Delivery) error
}

// NewPublisher returns a publisher that stores deliveries in store and hands
// their jobs to queue.
func NewPublisher(store PublisherStore, queue Queue) *Publisher {
	return &Publisher{store, queue}
}

// Publish stores one delivery of the event for every endpoint of the merchant
// that subscribed to its type, then enqueues a job for each. Once it returned
// nil every one of them will be attempted. After an error, or a crash, any part
// may have been done; publishing the same event again completes it and makes
// nothing twice but jobs, which do no harm.
//
// The event must be the same every time; its time, in milliseconds, dates the
// deliveries.
// A disabled endpoint gets a delivery that is Cancelled, to be resent later.
func (p *Publisher) Publish(ctx context.Context, ev Event) error {
	endpoints, err := p.store.Endpoints(ctx, Owner{ev.Merchant, ev.Mode})
	if err != nil {
		return fmt.Errorf("publishing %s: %w", ev.ID, err)
	}
	var ds []Delivery
	for _, e := range endpoints {
		if !e.Subscribed(ev.Type) {
			continue
		}
		d := firstDelivery(e, ev)
		if e.Status != Enabled {
			d.Status, d.NextAttemptAt = Cancelled, time.Time{}
		}
		ds = append(ds, d)
	}
	if len(ds) == 0 {
		return nil
	}
	// From here on a crash leaves deliveries without jobs; the caller keeps the
	// event until Publish returned nil, and so comes back for them.
	if err := p.store.AddDeliveries(ctx, ds); err != nil {
		return fmt.Errorf("publishing %s: %w", ev.ID, err)
	}
	var errs []error
	for _, d := range ds {
		if d.Status == Pending {
			errs = append(errs, p.queue.Enqueue(ctx, d.Ref.String(), 0))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("publishing %s: %w", ev.ID, err)
	}
	return nil
}
