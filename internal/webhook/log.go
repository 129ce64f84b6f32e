package webhook

import (
	"context"
	"io"
	"time"
)

// LogLimit is how many deliveries a merchant is shown at most.
const LogLimit = 100

// A Log shows the deliveries of endpoints and repeats them.
type Log struct {
	store  Store
	queue  Queue
	now    func() time.Time
	random io.Reader
}

// NewLog returns the log kept in store. random makes ids.
func NewLog(store Store, queue Queue, now func() time.Time, random io.Reader) *Log {
	return &Log{store, queue, now, random}
}

// Deliveries returns the endpoint's newest deliveries, newest first, at most
// LogLimit, without their bodies. A deleted endpoint still has its log;
// ErrNotFound if there never was one of that id.
func (l *Log) Deliveries(ctx context.Context, o Owner, endpoint string) ([]Delivery, error) {
	panic("TODO")
}

// Failed returns the deliveries created in [from, to) that were exhausted or
// cancelled and whose event has neither reached the endpoint since nor is on
// its way again, oldest first, without their bodies.
func (l *Log) Failed(ctx context.Context, o Owner, endpoint string, from, to time.Time) ([]Delivery, error) {
	panic("TODO")
}

// Resend makes a new delivery of the same event, with the same id and bytes,
// and returns it. It is on its way once Resend returned nil, even if the queue
// is down. The errors are ErrNotFound (also for a deleted endpoint),
// ErrDeliveryNotFound and ErrDisabled.
func (l *Log) Resend(ctx context.Context, o Owner, endpoint, delivery string) (Delivery, error) {
	panic("TODO")
}

// ResendFailed resends what Failed returns, once per event, and returns the new
// deliveries. Done again, or after a crash, it goes on where it stopped.
func (l *Log) ResendFailed(ctx context.Context, o Owner, endpoint string, from, to time.Time) ([]Delivery, error) {
	panic("TODO")
}
