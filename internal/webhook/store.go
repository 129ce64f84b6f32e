package webhook

import (
	"context"
	"time"
)

// Every write of a store is all or nothing, is durable when it returned nil,
// and may have been applied although it returned an error. Every read sees all
// writes that were answered before it began, except where its comment says
// otherwise.

// An EndpointStore keeps endpoints.
type EndpointStore interface {
	// AddEndpoint stores a new endpoint. It returns ErrLimit, storing nothing,
	// if its owner has limit endpoints already, however many callers add at the
	// same time. Adding the very same endpoint again is nil.
	AddEndpoint(ctx context.Context, e Endpoint, limit int) error

	// Endpoints returns the owner's endpoints but the deleted ones, newest
	// first, by descending id within one instant. None is not an error.
	Endpoints(ctx context.Context, o Owner) ([]Endpoint, error)

	// Endpoint returns one endpoint, deleted or not, or ErrNotFound.
	Endpoint(ctx context.Context, o Owner, id string) (Endpoint, error)

	// SaveEndpoint stores e and returns it with its new Version, if the stored
	// one is of e.Version and not deleted: ErrConflict or ErrNotFound
	// otherwise. A Status of Deleted frees e's place under the limit.
	SaveEndpoint(ctx context.Context, e Endpoint) (Endpoint, error)
}

// A DeliveryStore keeps deliveries and the bodies they carry.
type DeliveryStore interface {
	// AddDeliveries stores each of ds that is not stored yet; a delivery that is
	// stays as it is, in any status. After an error any of them may be stored.
	// All are of one owner, at most EndpointLimit.
	AddDeliveries(ctx context.Context, ds []Delivery) error

	// Load returns a delivery and its endpoint as it is now, in one round trip;
	// an endpoint that does not exist comes back as Deleted. A missing delivery
	// is ErrDeliveryNotFound.
	Load(ctx context.Context, r Ref) (Endpoint, Delivery, error)

	// Record stores the Status, Attempts, NextAttemptAt and Parked of d, and
	// returns d, if the stored delivery has the given number of attempts and is
	// Pending; a d that is Delivered may follow any status but Delivered.
	// Otherwise it stores nothing and returns the stored delivery with
	// ErrConflict, or with nil if the stored one is d itself, from a write
	// whose answer was lost. ErrDeliveryNotFound if there is none.
	Record(ctx context.Context, d Delivery, attempts int) (Delivery, error)

	// Deliveries returns an endpoint's deliveries created in [from, to), newest
	// first, at most limit; a zero to means no end. Bodies are not filled in.
	Deliveries(ctx context.Context, o Owner, endpoint string, from, to time.Time, limit int) ([]Delivery, error)
}

// A DueStore finds parked deliveries.
type DueStore interface {
	// Due returns at most limit parked deliveries that are due at now, those
	// that wait longest first as far as an index can tell. It may lag behind
	// writes, and so miss or repeat some. Deliveries found before an error are
	// returned with it.
	Due(ctx context.Context, now time.Time, limit int) ([]Due, error)

	// Unpark clears Parked if the delivery still waits for exactly d.At, and
	// returns nil also if it does not.
	Unpark(ctx context.Context, d Due) error
}

// A Due is a parked delivery and the time it waits for.
type Due struct {
	Ref
	At time.Time
}

// A Store keeps endpoints and deliveries.
type Store interface {
	EndpointStore
	DeliveryStore
	DueStore
}

// A Queue carries jobs to a Deliverer, each at least once, in any order, and
// not before its delay is over. Jobs of one endpoint must not hold up those of
// another.
type Queue interface {
	// Enqueue accepts job, the text of a Ref. delay is whole seconds, from 0 to
	// QueueLimit. After an error the job may have been accepted.
	Enqueue(ctx context.Context, job string, delay time.Duration) error
}

// QueueLimit is the longest delay a Queue takes. It is Amazon SQS's.
const QueueLimit = 15 * time.Minute
