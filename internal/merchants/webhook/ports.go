package webhook

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"
)

// Every write of a store is all or nothing, is durable when it returned nil, and may have been applied although it
// returned an error. Every read sees all writes that were answered before it began, except where its comment states
// otherwise. A write beyond the bounds of sizelimits.go is ErrTooLarge and changes nothing.

// An EndpointStore keeps endpoints.
type EndpointStore interface {
	// AddEndpoint stores a new endpoint. It returns ErrLimit, storing nothing, if its owner has limit endpoints
	// already, however many callers add at the same time. Adding the very same endpoint again is nil.
	AddEndpoint(ctx context.Context, e Endpoint, limit int) error

	// Endpoints returns the owner's endpoints but deleted ones, newest first, by descending id within one instant.
	Endpoints(ctx context.Context, o Owner) ([]Endpoint, error)

	// Endpoint returns one endpoint, deleted or not, or ErrNotFound.
	Endpoint(ctx context.Context, o Owner, id string) (Endpoint, error)

	// SaveEndpoint stores e and returns it with its new Version, if the stored one is of e.Version and not deleted:
	// ErrConflict or ErrNotFound otherwise. A Status of Deleted frees e's place under the limit.
	SaveEndpoint(ctx context.Context, e Endpoint) (Endpoint, error)
}

// A DeliveryStore keeps deliveries and the bodies they carry.
type DeliveryStore interface {
	// AddDelivery stores d, unless it is stored already, in any status.
	AddDelivery(ctx context.Context, d Delivery) error

	// Load returns a delivery and its endpoint as it is now, in one round trip; an endpoint that does not exist comes
	// back as Deleted. A missing delivery is ErrDeliveryNotFound, which comes with the endpoint.
	Load(ctx context.Context, r Ref) (Endpoint, Delivery, error)

	// Record stores the Status, Attempts, NextAttemptAt, Parked and EndedAt of d, and returns d, if the stored delivery
	// has the given number of attempts and is Pending; a d that is Delivered may follow any status but Delivered.
	// Otherwise it stores nothing and returns the stored delivery with ErrConflict, or with nil if the stored one is
	// d itself, from a write whose answer was lost. If none is stored, d is stored whole where attempts is 0; else
	// the error is ErrDeliveryNotFound.
	Record(ctx context.Context, d Delivery, attempts int) (Delivery, error)

	// Deliveries returns an endpoint's deliveries created in [from, to), newest
	// first, at most limit; a zero to means no end. Bodies are not filled in.
	Deliveries(ctx context.Context, o Owner, endpoint string, from, to time.Time, limit int) ([]Delivery, error)
}

// A DueStore finds parked deliveries.
type DueStore interface {
	// Due returns at most limit parked deliveries that are due at now, ordered by their waiting time. Of more than
	// limit it returns half from the longest waits and half from the shortest, as far as an index can order them, so
	// that a delivery that has just come due is found behind any backlog. It may lag behind writes, and so miss or
	// repeat some. Deliveries found before an error are returned with it.
	Due(ctx context.Context, now time.Time, limit int) ([]Due, error)

	// Unpark clears Parked if the delivery still waits for exactly d.At, and returns nil also if it does not.
	Unpark(ctx context.Context, d Due) error
}

// A Due is a parked delivery and the time it waits for.
type Due struct {
	Ref
	At time.Time
}

// Ends returns due if it has at most limit elements, else its first and its last, half of each.
func Ends(due []Due, limit int) []Due {
	if len(due) <= limit {
		return due
	}
	return slices.Delete(due, limit-limit/2, len(due)-limit/2)
}

// NewestFirst orders a list of endpoints.
func NewestFirst(a, b Endpoint) int {
	return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.ID, a.ID))
}

// A Store keeps endpoints and deliveries.
type Store interface {
	EndpointStore
	DeliveryStore
	DueStore
}

// A Queue carries jobs to a Deliverer, each at least once, in any order, and not before its delay is over. Jobs of
// one endpoint must not hold up those of another.
type Queue interface {
	// Enqueue accepts job, which ParseJob reads. delay is 0 to QueueLimit seconds. After an error it may have the job.
	Enqueue(ctx context.Context, job string, delay time.Duration) error
}

// QueueLimit is the longest delay a Queue takes. It is Amazon SQS's.
const QueueLimit = 15 * time.Minute

// A Sender posts messages; guard.Client posts them to the network.
type Sender interface {
	// Post sends body to url once and returns the answer, of any status. It returns within SendTimeout. The error is a
	// *SendError, unless ctx ended first: no answer was understood, and the endpoint may have taken the message.
	Post(ctx context.Context, url string, header http.Header, body []byte) (Answer, error)
}

// An Answer is the part of a response that a Sender keeps.
type Answer struct {
	StatusCode int
	RetryAfter string // the header, as it was sent
	Body       []byte // at most ResponseLimit bytes
}

// A SendError explains why a post got no answer.
type SendError struct {
	Reason string // for the merchant; names no address that the URL does not name
	Err    error  // for the log
}

func (e *SendError) Error() string { return e.Reason + ": " + e.Err.Error() }

func (e *SendError) Unwrap() error { return e.Err }

// A Checker decides whether a URL may be registered.
type Checker interface {
	// Check returns a *FieldError for a URL that Post would not send to now. Other errors: it could not be checked.
	Check(ctx context.Context, url string) error
}

// A Meter counts attempts and deliveries for operators; *emf.Meter is one. It is safe for concurrent use. Names and
// values hold no merchant's data.
type Meter interface {
	Add(name string, value float64)
}
