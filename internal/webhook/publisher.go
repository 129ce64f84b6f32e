package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// A Publisher announces events to the endpoints that want them.
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

// Announce stores one delivery of the event for every endpoint of the merchant
// that subscribed to its type, then enqueues a job for each. Once it returned
// nil every one of them will be attempted. After an error, or a crash, any part
// may have been done; announcing the same event again completes it and makes
// nothing twice but jobs, which do no harm.
//
// body must be the same bytes every time. Its "timestamp" dates the deliveries.
// A disabled endpoint gets a delivery that is Cancelled, to be resent later.
func (p *Publisher) Announce(ctx context.Context, merchantID, mode, eventID, eventType string, body []byte) error {
	ev := Event{ID: eventID, Type: eventType, At: timestamp(body), Body: body}
	endpoints, err := p.store.Endpoints(ctx, Owner{merchantID, mode})
	if err != nil {
		return fmt.Errorf("announcing %s: %w", eventID, err)
	}
	var ds []Delivery
	for _, e := range endpoints {
		if !e.Subscribed(eventType) {
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
	// event until Announce returned nil, and so comes back for them.
	if err := p.store.AddDeliveries(ctx, ds); err != nil {
		return fmt.Errorf("announcing %s: %w", eventID, err)
	}
	var errs []error
	for _, d := range ds {
		if d.Status == Pending {
			errs = append(errs, p.queue.Enqueue(ctx, d.Ref.String(), 0))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("announcing %s: %w", eventID, err)
	}
	return nil
}

// timestamp returns when an event happened, in milliseconds. A body that does
// not say so has the zero time: it is announced all the same.
func timestamp(body []byte) time.Time {
	var ev struct {
		Timestamp time.Time `json:"timestamp"`
	}
	if json.Unmarshal(body, &ev) != nil {
		return time.Time{}
	}
	return ev.Timestamp.UTC().Truncate(time.Millisecond)
}
