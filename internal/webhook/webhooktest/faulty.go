package webhooktest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"remit/internal/webhook"
)

// ErrFault is the failure that Faults cause.
var ErrFault = errors.New("injected fault")

// A Fault says how an effect fails.
type Fault int

// The ways to fail. A crash fails everything after it too, until Restart.
const (
	None        Fault = iota
	Before            // not applied, and reported as failed
	After             // applied, but the answer is lost
	CrashBefore       // the process ends before the effect
	CrashAfter        // the process ends after it
)

// String names the fault for test output.
func (f Fault) String() string {
	return [...]string{"none", "before", "after", "crash before", "crash after"}[f]
}

// Faults makes chosen effects fail. It numbers every call of what it wraps, from
// 0, in the order they begin.
type Faults struct {
	// Plan returns how the n-th effect fails, which is a call of the named
	// method; a nil Plan fails nothing.
	Plan func(n int, name string) Fault
	// Hook, if set, is called before the n-th effect. It may cause effects of
	// its own, which are not numbered and do not fail.
	Hook func(n int)

	mu     sync.Mutex
	names  []string
	dead   bool
	hooked bool
}

// Names returns what was called, in order.
func (f *Faults) Names() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.names
}

// Restart ends a crash.
func (f *Faults) Restart() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dead = false
}

// do runs one effect, or not.
func (f *Faults) do(name string, effect func() error) error {
	f.mu.Lock()
	if f.hooked {
		f.mu.Unlock()
		return effect()
	}
	n := len(f.names)
	f.names = append(f.names, name)
	fault := None
	if f.Plan != nil {
		fault = f.Plan(n, name)
	}
	if f.dead {
		fault = Before
	}
	f.dead = f.dead || fault == CrashBefore || fault == CrashAfter
	hook := f.Hook
	f.hooked = hook != nil
	f.mu.Unlock()

	if hook != nil {
		hook(n)
		f.mu.Lock()
		f.hooked = false
		f.mu.Unlock()
	}
	if fault == Before || fault == CrashBefore {
		return fmt.Errorf("%s: %w", name, ErrFault)
	}
	err := effect()
	if fault == After || fault == CrashAfter {
		return fmt.Errorf("%s: %w", name, ErrFault)
	}
	return err
}

// Store returns s with faults.
func (f *Faults) Store(s webhook.Store) webhook.Store { return faultyStore{s, f} }

// Queue returns q with faults.
func (f *Faults) Queue(q webhook.Queue) webhook.Queue { return faultyQueue{q, f} }

// Sender returns s with faults. One that fails before has not posted, one that
// fails after has: the endpoint took the message and its answer was lost.
func (f *Faults) Sender(s webhook.Sender) webhook.Sender { return faultySender{s, f} }

type faultyQueue struct {
	webhook.Queue
	f *Faults
}

func (q faultyQueue) Enqueue(ctx context.Context, job string, delay time.Duration) error {
	return q.f.do("Enqueue", func() error { return q.Queue.Enqueue(ctx, job, delay) })
}

type faultySender struct {
	webhook.Sender
	f *Faults
}

func (s faultySender) Post(ctx context.Context, url string, header http.Header, body []byte) (a webhook.Answer, err error) {
	err = s.f.do("Post", func() error {
		a, err = s.Sender.Post(ctx, url, header, body)
		return err
	})
	if errors.Is(err, ErrFault) {
		return webhook.Answer{}, &webhook.SendError{Reason: "the connection was reset", Err: err}
	}
	return a, err
}

type faultyStore struct {
	webhook.Store
	f *Faults
}

func (s faultyStore) AddEndpoint(ctx context.Context, e webhook.Endpoint, limit int) error {
	return s.f.do("AddEndpoint", func() error { return s.Store.AddEndpoint(ctx, e, limit) })
}

func (s faultyStore) Endpoints(ctx context.Context, o webhook.Owner) (list []webhook.Endpoint, err error) {
	err = s.f.do("Endpoints", func() error {
		list, err = s.Store.Endpoints(ctx, o)
		return err
	})
	return list, err
}

func (s faultyStore) Endpoint(ctx context.Context, o webhook.Owner, id string) (e webhook.Endpoint, err error) {
	err = s.f.do("Endpoint", func() error {
		e, err = s.Store.Endpoint(ctx, o, id)
		return err
	})
	return e, err
}

func (s faultyStore) SaveEndpoint(ctx context.Context, e webhook.Endpoint) (saved webhook.Endpoint, err error) {
	err = s.f.do("SaveEndpoint", func() error {
		saved, err = s.Store.SaveEndpoint(ctx, e)
		return err
	})
	return saved, err
}

func (s faultyStore) AddDeliveries(ctx context.Context, ds []webhook.Delivery) error {
	return s.f.do("AddDeliveries", func() error { return s.Store.AddDeliveries(ctx, ds) })
}

func (s faultyStore) Load(ctx context.Context, r webhook.Ref) (e webhook.Endpoint, d webhook.Delivery, err error) {
	err = s.f.do("Load", func() error {
		e, d, err = s.Store.Load(ctx, r)
		return err
	})
	return e, d, err
}

func (s faultyStore) Record(ctx context.Context, d webhook.Delivery, attempts int) (stored webhook.Delivery, err error) {
	err = s.f.do("Record", func() error {
		stored, err = s.Store.Record(ctx, d, attempts)
		return err
	})
	return stored, err
}

func (s faultyStore) Deliveries(ctx context.Context, o webhook.Owner, endpoint string, from, to time.Time, limit int) (ds []webhook.Delivery, err error) {
	err = s.f.do("Deliveries", func() error {
		ds, err = s.Store.Deliveries(ctx, o, endpoint, from, to, limit)
		return err
	})
	return ds, err
}

func (s faultyStore) Due(ctx context.Context, now time.Time, limit int) (due []webhook.Due, err error) {
	err = s.f.do("Due", func() error {
		due, err = s.Store.Due(ctx, now, limit)
		return err
	})
	return due, err
}

func (s faultyStore) Unpark(ctx context.Context, d webhook.Due) error {
	return s.f.do("Unpark", func() error { return s.Store.Unpark(ctx, d) })
}
