package webhook

import (
	"errors"
	"fmt"
)

// ErrTooLarge reports a value beyond a bound of a Store. Nothing was stored.
var ErrTooLarge = errors.New("larger than a store takes")

// The bounds of a Store, beside EndpointLimit, which is how many deliveries one event has. So many at all of their
// bounds are below the 4 MB and 100 items of a transaction of DynamoDB, and each is below the 400 KB of an item
// (Amazon DynamoDB Developer Guide, "Quotas in Amazon DynamoDB").
const (
	MaxBody       = 200 << 10     // bytes of an event: as many as store.MaxEvent
	MaxAttempts   = len(schedule) // of a delivery
	MaxEventTypes = 20            // of an endpoint: more than there are
)

// FitsDelivery returns ErrTooLarge if d is beyond a bound, else nil.
func FitsDelivery(d Delivery) error {
	if len(d.Attempts) > MaxAttempts || len(d.Event.Body) > MaxBody {
		return fmt.Errorf("%w: %d attempts, at most %d, of a body of %d bytes, at most %d", ErrTooLarge, len(d.Attempts), MaxAttempts,
			len(d.Event.Body), MaxBody)
	}
	return nil
}

// Fits returns ErrTooLarge if e is beyond a bound, else nil.
func (e Endpoint) Fits() error {
	if len(e.EventTypes) > MaxEventTypes {
		return fmt.Errorf("%w: %d types of events, at most %d", ErrTooLarge, len(e.EventTypes), MaxEventTypes)
	}
	return nil
}
