package webhook_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// slow publishes n events to an endpoint at hook that answers each post after took, and does the jobs that are due.
func (w *fixture) slow(n int, took time.Duration, status int) {
	w.t.Helper()
	w.took, w.answers[hook] = took, statuses(status)
	for range n {
		w.mustPublish(w.numbered(len(w.jobs) + len(w.posts)))
	}
	w.work()
}

// parked returns a stack with an endpoint that has just been parked.
func parked(t *testing.T, took time.Duration, status int) (*fixture, webhook.Endpoint) {
	t.Helper()
	w, e := registered(t)
	for range 3 {
		w.slow(1, took, status)
		w.jobs = nil // of the second attempts, which are not of interest
	}
	w.has(3, 0)
	return w, e
}

// TestSlowEndpointsAreParked: whatever they answer, and not before the third time in a row.
func TestSlowEndpointsAreParked(t *testing.T) {
	for _, row := range []struct {
		name   string
		took   time.Duration
		status int
		posts  int // of four events
	}{
		{"no answer in time", 15 * time.Second, 0, 3},
		{"a late success", 14 * time.Second, 200, 3},
		{"a late refusal", 5 * time.Second, 500, 3},
		{"a quick refusal", 4999 * time.Millisecond, 500, 4},
		{"a quick success", 4999 * time.Millisecond, 200, 4},
	} {
		t.Run(row.name, func(t *testing.T) {
			w, _ := parked(t, row.took, row.status)
			w.slow(1, row.took, row.status)
			if len(w.posts) != row.posts {
				t.Errorf("%d posts, want %d", len(w.posts), row.posts)
			}
		})
	}
	t.Run("not in a row", func(t *testing.T) {
		w, _ := registered(t)
		for _, took := range []time.Duration{15, 15, 1, 15, 15, 1, 15} {
			w.slow(1, took*time.Second, 200)
		}
		w.has(7, 0)
	})
}

// TestPutOff: a delivery waits as long again as it has waited since its event, with a tenth
// of jitter, and ends when its attempts would have ended.
func TestPutOff(t *testing.T) {
	const patience = 75*time.Hour + 35*time.Minute + 5*time.Second
	for name, test := range map[string]struct {
		age   time.Duration
		first bool
		want  time.Duration // 0: it ends
	}{
		"a first attempt that was published late": {time.Hour, true, 66 * time.Second},
		"it has waited an hour":                   {time.Hour, false, 66 * time.Minute},
		"it has waited for long":                  {patience, false, 26*time.Hour + 24*time.Minute},
		"it has waited for too long":              {patience + time.Millisecond, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w, e := parked(t, 15*time.Second, 0)
			ev := w.numbered(9)
			ev.At = w.now().Add(-test.age)
			d := webhook.Delivery{Ref: webhook.Ref{Owner: mine, Endpoint: e.ID, Delivery: webhook.FirstID(w.now())},
				Event: ev, Status: webhook.Pending, NextAttemptAt: w.now(), CreatedAt: ev.At}
			if test.first {
				d.NextAttemptAt = ev.At
			}
			must.OK(t, w.store.AddDelivery(t.Context(), d))
			must.OK(t, w.deliverer.Deliver(t.Context(), d.Ref.String()))
			if test.want == 0 {
				w.logged(e, webhook.Exhausted, 0)
			} else if got := w.logged(e, webhook.Pending, 0).NextAttemptAt.Sub(w.now()); got != test.want {
				t.Errorf("put off for %v, want %v", got, test.want)
			}
		})
	}
}

// TestAPostFromBeforeTheParking changes nothing when it ends late after it.
func TestAPostFromBeforeTheParking(t *testing.T) {
	for _, status := range []int{200, 500} {
		w, e := registered(t)
		for range 2 {
			w.slow(1, 15*time.Second, status)
			w.jobs = nil
		}
		w.mustPublish(w.numbered(8))
		w.mustPublish(w.numbered(9))
		job, _ := w.pop()
		nested := false
		post := sending(func(ctx context.Context, url string, h http.Header, b []byte) (webhook.Answer, error) {
			if other, ok := w.pop(); ok && !nested {
				nested = true
				must.OK(t, w.deliverer.Deliver(ctx, other))
			}
			return w.Post(ctx, url, h, b)
		})
		must.OK(t, w.delivererOf(w.store, post).Deliver(t.Context(), job))
		want := w.now().Add(-15*time.Second + time.Minute)
		if got, err := w.store.Endpoint(t.Context(), mine, e.ID); err != nil || !nested || got.Slow != 3 || !got.RetryAt.Equal(want) {
			t.Errorf("%d: %d slow attempts, next at %v, want %v; %v", status, got.Slow, got.RetryAt, want, err)
		}
	}
}

// TestProbes: one delivery at a time is posted to a parked endpoint, less and less often
// while it hangs, and after a late success as soon as it has had as much time to rest.
func TestProbes(t *testing.T) {
	for _, row := range []struct {
		name   string
		took   time.Duration
		status int
		waits  []time.Duration // from a probe's begin, or a late success, to the next probe
	}{
		{"no answer", 15 * time.Second, 0, []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute,
			8 * time.Minute, 16 * time.Minute, 16 * time.Minute}},
		{"late 200s", 14 * time.Second, 200, []time.Duration{14 * time.Second, 14 * time.Second, 14 * time.Second}},
	} {
		t.Run(row.name, func(t *testing.T) {
			w, e := parked(t, row.took, row.status)
			next := w.now().Add(time.Minute)
			for i, wait := range row.waits {
				for _, at := range []time.Time{next.Add(-time.Millisecond), next} {
					w.clock, w.jobs = at, nil
					w.slow(2, row.took, row.status)
				}
				if len(w.posts) != 4+i {
					t.Fatalf("%d posts by probe %d", len(w.posts), i+1)
				}
				next = w.posts[3+i].at.Add(wait)
				if row.status == 200 {
					next = next.Add(row.took)
				}
			}
			w.change(e, webhook.Change{URL: new(hook), Status: new(webhook.Enabled)}) // it is both
			w.slow(2, time.Second, 200)
			w.change(e, webhook.Change{URL: new("https://other.example")})
			w.slow(2, time.Second, 200)
			if n := len(w.to("https://other.example")); n != 2 || len(w.posts) != 5+len(row.waits) {
				t.Errorf("%d posts to another URL, of %d", n, len(w.posts))
			}
		})
	}
}

// TestOneProbeAtATime: of two processes that find a probe due at the same moment, one posts.
func TestOneProbeAtATime(t *testing.T) {
	w, e := parked(t, 15*time.Second, 0)
	w.clock = w.now().Add(time.Minute)
	w.mustPublish(w.numbered(8))
	w.mustPublish(w.numbered(9))
	raced := false
	w.faults.plan = func(_ int, name string) fault {
		if name == "SaveEndpoint" && !raced {
			raced = true
			other, _ := w.pop()
			must.OK(t, w.delivererOf(w.store, w).Deliver(t.Context(), other))
		}
		return none
	}
	job, _ := w.pop()
	must.OK(t, w.deliverer.Deliver(t.Context(), job))
	if !raced || len(w.posts) != 4 {
		t.Errorf("raced: %v; %d posts", raced, len(w.posts))
	}
	if got, err := w.store.Endpoint(t.Context(), mine, e.ID); err != nil || got.Slow != 4 {
		t.Errorf("%d slow attempts, %v", got.Slow, err)
	}
}

// TestAProbeThatCannotBeClaimed is tried again.
func TestAProbeThatCannotBeClaimed(t *testing.T) {
	w, e := parked(t, 15*time.Second, 0)
	w.clock = w.now().Add(time.Minute)
	w.mustPublish(w.numbered(9))
	w.outage("SaveEndpoint", before)
	job, _ := w.pop()
	if err := w.deliverer.Deliver(t.Context(), job); !errors.Is(err, errFault) {
		t.Errorf("delivering: %v", err)
	}
	w.has(3, 0)
	if d := w.newest(e); d.Event.ID == "evt_9" {
		t.Errorf("it is put off until %v", d.NextAttemptAt)
	}
}

// TestAParkedEndpointsEventsEnd when their attempts would have, and disable it as those do.
func TestAParkedEndpointsEventsEnd(t *testing.T) {
	w, e := parked(t, 15*time.Second, 0)
	w.mustPublish(w.numbered(9))
	last := w.now()
	for range 300 {
		w.slow(1, 15*time.Second, 0) // takes most probes
		w.until(w.now().Add(time.Hour))
		w.clock = w.now().Add(time.Hour)
		if w.status(e) == webhook.Disabled {
			break
		}
	}
	if age := w.now().Sub(last); age < 120*time.Hour || w.status(e) != webhook.Disabled {
		t.Errorf("the endpoint is %s after %v", w.status(e), age)
	}
}
