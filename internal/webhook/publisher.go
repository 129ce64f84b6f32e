package webhook

import "context"

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
	panic("TODO")
}
