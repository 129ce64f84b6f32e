package webhook

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A Publisher turns events into deliveries to the endpoints that subscribed to
// them.
type Publisher struct {
	store PublisherStore
	queue Queue
}

// A PublisherStore is the part of a Store that a Publisher uses.
type PublisherStore interface {
	Endpoints(ctx context.Context, o Owner) ([]Endpoint, error)
	AddDeliveries(ctx context.Context, ds []Delivery) error
}

// NewPublisher returns a publisher that stores deliveries in store and hands
// their jobs to queue.
func NewPublisher(store PublisherStore, queue Queue) *Publisher {
	return &Publisher{store, queue}
}

// Publish stores one delivery of ev for each endpoint of its merchant and mode
// that subscribed to its type, then enqueues a job for each. Once it returned
// nil every delivery will be attempted. After an error or a crash any of the
// deliveries and jobs may exist; publishing the same event again makes the
// missing ones, and a second job of a delivery does no harm.
//
// All fields of ev must be the same every time. At counts in whole milliseconds.
// A disabled endpoint gets a delivery that is Cancelled, to be resent later.
func (p *Publisher) Publish(ctx context.Context, ev Event) error {
	ev.At = ev.At.UTC().Truncate(time.Millisecond)
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
	// From here on a crash leaves deliveries without jobs. The caller keeps the
	// event until Publish returned nil, and so publishes it again.
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
