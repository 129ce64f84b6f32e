package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// A bus notes the events that reach it, and fails until a time: calls with an odd number are done all the same.
type bus struct {
	*fixture
	until time.Time
	calls int
	got   []string // their ids
}

func (b *bus) Put(_ context.Context, ev webhook.Event) error {
	b.calls++
	down := b.now().Before(b.until)
	if !down || b.calls%2 == 1 {
		b.got = append(b.got, ev.ID)
	}
	if down {
		return errors.New("the bus is down")
	}
	return nil
}

// do does all jobs that are due, and returns the errors.
func (b *bus) do(ctx context.Context) (errs error) {
	d := b.deliverer
	d.Bus = b
	for due := b.due(); len(due) > 0; due = b.due() {
		for _, job := range due {
			errs = errors.Join(errs, d.Deliver(ctx, job))
		}
	}
	return errs
}

// due removes and returns the jobs whose time has come.
func (b *bus) due() (texts []string) {
	b.jobs = slices.DeleteFunc(b.jobs, func(j job) bool {
		due := !j.at.After(b.clock)
		if due {
			texts = append(texts, j.text)
		}
		return due
	})
	return texts
}

func heap() int64 {
	runtime.GC()
	var now runtime.MemStats
	runtime.ReadMemStats(&now)
	return int64(now.HeapAlloc)
}

// TestABusThatIsDown for an hour, with four payments a second: each event reaches it at least once, soon after the
// hour; webhooks go on meanwhile, and the jobs that wait are few at a time. No process keeps anything, and publishing,
// which rounds wait for, never calls the bus. After three days a job ends among the dead letters.
func TestABusThatIsDown(t *testing.T) {
	w := newFixture(t)
	w.register(mine, "https://good.example")
	w.publisher.Bus = true
	b, n := &bus{fixture: w, until: noon.Add(time.Hour)}, 0
	most, was := 0, heap()
	for ; w.clock.Before(b.until); w.clock = w.clock.Add(10 * time.Second) {
		before := b.calls
		for range 40 {
			ev := event
			ev.ID, ev.At = fmt.Sprint("evt_", n), w.clock
			n++
			must.OK(t, w.publisher.Publish(t.Context(), ev))
		}
		if b.calls != before {
			t.Fatalf("publishing calls the bus %d times", b.calls-before)
		}
		must.OK(t, b.do(t.Context()))
		if most = max(most, b.calls-before); len(w.posts) != 40 {
			t.Fatalf("%d webhooks of 40 were posted beside the bus", len(w.posts))
		}
		w.posts, w.made, w.faults.names = nil, nil, nil
	}
	if grown := heap() - was; grown > int64(n)*3000 { // some 2,000 bytes an event are the fixture's tables and queue
		t.Errorf("%d calls and %d events take %d bytes of the heap", b.calls, n, grown)
	}
	if most > 600 { // a job waits as long as its event is old, so that calls grow with the logarithm of the outage
		t.Errorf("%d calls in ten seconds for 40 new events", most)
	}
	w.clock = w.clock.Add(webhook.QueueLimit)
	must.OK(t, b.do(t.Context()))
	slices.Sort(b.got)
	if got := slices.Compact(b.got); len(got) != n || len(w.jobs) != 0 {
		t.Errorf("the bus has %d events of %d, and %d jobs wait", len(got), n, len(w.jobs))
	}

	b.until = noon.AddDate(1, 0, 0)
	must.OK(t, w.publisher.Publish(t.Context(), event))
	for end := w.clock.Add(4 * 24 * time.Hour); w.clock.Before(end) && len(w.jobs) > 0; w.clock = w.clock.Add(webhook.QueueLimit) {
		if err := b.do(t.Context()); (err != nil) != (w.clock.Sub(event.At) >= 3*24*time.Hour) {
			t.Fatalf("after %s: %v", w.clock.Sub(event.At), err)
		}
	}
	if len(w.jobs) > 0 {
		t.Error("the job of a bus that is gone goes on for ever")
	}
}
