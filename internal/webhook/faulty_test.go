package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"remit/internal/webhook"
)

var errFault = errors.New("injected fault")

// A fault says how an effect fails.
type fault int

// The ways to fail. A crash fails every later effect too, until restart.
const (
	none        fault = iota
	before            // not applied, and reported as failed
	after             // applied, but the answer is lost
	crashBefore       // the process ends before the effect
	crashAfter        // the process ends after it
)

// String names the fault for test output.
func (f fault) String() string {
	return [...]string{"none", "before", "after", "crash before", "crash after"}[f]
}

// An injector makes chosen effects of the ports it wraps fail. It lets one
// effect happen at a time.
type injector struct {
	// plan returns how the n-th effect fails, counted from 0, which is a call of
	// the named method; nil fails nothing. It may cause effects that are not
	// wrapped.
	plan func(n int, name string) fault

	mu    sync.Mutex
	names []string // of the methods called, in order
	dead  bool
}

func (i *injector) restart() { i.dead = false }

// do runs an effect, or lets it fail.
func (i *injector) do(name string, effect func() error) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	n, how := len(i.names), none
	i.names = append(i.names, name)
	if i.plan != nil {
		how = i.plan(n, name)
	}
	if i.dead {
		how = before
	}
	i.dead = i.dead || how == crashBefore || how == crashAfter
	var err error
	if how != before && how != crashBefore {
		err = effect()
	}
	if how != none {
		return fmt.Errorf("%s: %w", name, errFault)
	}
	return err
}

// A faulty stack is the ports of one, through an injector.
type faulty struct {
	webhook.Store
	queue  webhook.Queue
	sender webhook.Sender
	*injector
}

// Post that fails before has not posted; one that fails after has, and the
// endpoint's answer was lost.
func (f faulty) Post(ctx context.Context, url string, header http.Header, body []byte) (a webhook.Answer, err error) {
	err = f.do("Post", func() (err error) { a, err = f.sender.Post(ctx, url, header, body); return err })
	if errors.Is(err, errFault) {
		return webhook.Answer{}, &webhook.SendError{Reason: "the connection was reset", Err: err}
	}
	return a, err
}

func (f faulty) Enqueue(ctx context.Context, job string, delay time.Duration) error {
	return f.do("Enqueue", func() error { return f.queue.Enqueue(ctx, job, delay) })
}

func (f faulty) Endpoints(ctx context.Context, o webhook.Owner) (list []webhook.Endpoint, err error) {
	err = f.do("Endpoints", func() (err error) { list, err = f.Store.Endpoints(ctx, o); return err })
	return list, err
}

func (f faulty) Endpoint(ctx context.Context, o webhook.Owner, id string) (e webhook.Endpoint, err error) {
	err = f.do("Endpoint", func() (err error) { e, err = f.Store.Endpoint(ctx, o, id); return err })
	return e, err
}

func (f faulty) SaveEndpoint(ctx context.Context, e webhook.Endpoint) (saved webhook.Endpoint, err error) {
	err = f.do("SaveEndpoint", func() (err error) { saved, err = f.Store.SaveEndpoint(ctx, e); return err })
	return saved, err
}

func (f faulty) AddDeliveries(ctx context.Context, ds []webhook.Delivery) error {
	return f.do("AddDeliveries", func() error { return f.Store.AddDeliveries(ctx, ds) })
}

func (f faulty) Load(ctx context.Context, r webhook.Ref) (e webhook.Endpoint, d webhook.Delivery, err error) {
	err = f.do("Load", func() (err error) { e, d, err = f.Store.Load(ctx, r); return err })
	return e, d, err
}

func (f faulty) Record(ctx context.Context, d webhook.Delivery, attempts int) (stored webhook.Delivery, err error) {
	err = f.do("Record", func() (err error) { stored, err = f.Store.Record(ctx, d, attempts); return err })
	return stored, err
}

func (f faulty) Deliveries(ctx context.Context, o webhook.Owner, endpoint string, from, to time.Time, limit int) (ds []webhook.Delivery, err error) {
	err = f.do("Deliveries", func() (err error) { ds, err = f.Store.Deliveries(ctx, o, endpoint, from, to, limit); return err })
	return ds, err
}

func (f faulty) Due(ctx context.Context, now time.Time, limit int) (due []webhook.Due, err error) {
	err = f.do("Due", func() (err error) { due, err = f.Store.Due(ctx, now, limit); return err })
	return due, err
}

func (f faulty) Unpark(ctx context.Context, d webhook.Due) error {
	return f.do("Unpark", func() error { return f.Store.Unpark(ctx, d) })
}
