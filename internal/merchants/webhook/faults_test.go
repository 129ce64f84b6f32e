package webhook_test

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// life takes one event to two endpoints, one of which fails until its delivery was parked and pushed. The event is
// published until that succeeds, as settlement does.
func life(t *testing.T, faults func(*fixture)) *fixture {
	w := newFixture(t)
	w.register(mine, "https://good.example")
	w.register(mine, "https://bad.example")
	w.answers["https://bad.example"] = statuses(500, 302, 503, 500, 200)
	faults(w)
	for try := 0; ; try++ {
		w.faults.restart()
		err := w.publish(event)
		if err == nil {
			break
		}
		if !errors.Is(err, errFault) || try > 9 {
			t.Fatalf("publishing, try %d: %v", try, err)
		}
		w.until(w.now().Add(time.Minute)) // the deliveries stored so far go on meanwhile
	}
	w.drain()
	return w
}

// checkInvariants checks the promises that hold after any life, with any faults.
func checkInvariants(w *fixture) {
	t := w.t
	t.Helper()
	for _, e := range must.Get(w.store.Endpoints(t.Context(), mine))(t) {
		posts := w.to(e.URL)
		if !slices.ContainsFunc(posts, func(p post) bool { return p.answer.StatusCode == 200 }) {
			t.Errorf("%s never got the event", e.URL)
		}
		for _, p := range posts {
			if p.header.Get(webhook.HeaderID) != event.ID || p.body != string(event.Body) {
				t.Errorf("%s got another event: %v %s", e.URL, p.header, p.body)
			}
			w.verified(p, e.Secret)
		}
		d := w.newest(e)
		if d.Status != webhook.Delivered {
			t.Errorf("%s: delivery is %s", e.URL, d.Status)
		}
		if all, err := w.listed(mine, e.ID); err != nil || len(all) != 1 {
			t.Errorf("%s: %d deliveries, %v", e.URL, len(all), err)
		}
		answered := slices.DeleteFunc(slices.Clone(d.Attempts), func(a webhook.Attempt) bool { return a.StatusCode == 0 })
		if len(answered) > len(posts) {
			t.Errorf("%s: %d answers in the log, %d posts", e.URL, len(answered), len(posts))
		}
		for i, a := range d.Attempts {
			real := slices.ContainsFunc(posts, func(p post) bool { return p.at.Equal(a.At) })
			if lost := a.StatusCode == 0; !real && !lost {
				t.Errorf("%s: attempt %d at %v was never made", e.URL, i, a.At)
			}
			if i > 0 && a.At.Before(d.Attempts[i-1].At) {
				t.Errorf("%s: attempt %d is out of order", e.URL, i)
			}
		}
		if last, _ := d.LastAttempt(); !last.Succeeded() {
			t.Errorf("%s: the last attempt in the log failed", e.URL)
		}
		if !e.QuietSince.IsZero() || e.Exhausted != "" || e.Status != webhook.Enabled {
			t.Errorf("%s is not trusted again: %+v", e.URL, e)
		}
	}
}

// TestEveryFault lets each effect of an event's life fail in every way, one at a time and two at a time.
func TestEveryFault(t *testing.T) {
	undisturbed := life(t, func(*fixture) {})
	checkInvariants(undisturbed)
	n := len(undisturbed.faults.names)
	kinds := []fault{before, after, crashBefore, crashAfter}
	cases := 0
	run := func(plan map[int]fault) {
		cases++
		w := life(t, func(w *fixture) { w.faults.plan = func(i int, _ string) fault { return plan[i] } })
		checkInvariants(w)
		if t.Failed() {
			t.Fatalf("with the faults %v of %v", plan, w.faults.names)
		}
	}
	for first := range n {
		for _, f := range kinds {
			run(map[int]fault{first: f})
			for second := first + 1; second < n+10; second++ {
				for _, g := range kinds {
					run(map[int]fault{first: f, second: g})
				}
			}
		}
	}
	t.Logf("%d cases over %d effects", cases, n)
}

// TestEveryErrorIsTold lets each effect of each call fail once: the call returns its error,
// but for the job of a resend, which PushDue makes as well.
func TestEveryErrorIsTold(t *testing.T) {
	type stack struct {
		*fixture
		e   webhook.Endpoint
		job string
	}
	build := func() stack {
		w := newFixture(t)
		s := stack{fixture: w, e: w.register(mine, hook)}
		w.answers[hook] = statuses(410)
		w.mustPublish(event)
		w.drain()
		w.change(s.e, enable)
		w.mustPublish(w.numbered(2))
		s.job, _ = w.pop()
		do := func(_ context.Context, _ string, b []byte) ([]byte, error) { return b, w.faults.do("KMS", func() {}) }
		sealed := webhook.Sealed{Store: w.ports, Seal: do, Open: do}
		w.registry = &webhook.Registry{Store: sealed, URLs: checker{}, Now: w.now, Random: rand.Reader}
		w.log = &webhook.Log{Store: w.ports, Queue: w, Now: w.now, Random: rand.Reader}
		w.deliverer = w.delivererOf(sealed, w)
		w.tester = &webhook.Tester{Store: sealed, Sender: w, Now: w.now, Random: rand.Reader}
		must.Get(s.registry.RotateSecret(t.Context(), mine, s.e.ID, 0))(t) // sealed
		w.faults.names = nil
		return s
	}
	for name, call := range map[string]func(s stack) error{
		"Register": func(s stack) error {
			return must.Err(s.registry.Register(t.Context(), mine, webhook.Registration{URL: hook}))
		},
		"Update": func(s stack) error { return must.Err(s.registry.Update(t.Context(), mine, s.e.ID, disable)) },
		"Delete": func(s stack) error { return s.registry.Delete(t.Context(), mine, s.e.ID) },
		"RotateSecret": func(s stack) error {
			return must.Err(s.registry.RotateSecret(t.Context(), mine, s.e.ID, time.Hour))
		},
		"Test":       func(s stack) error { return must.Err(s.tester.Test(t.Context(), mine, s.e.ID)) },
		"Deliveries": func(s stack) error { return must.Err(s.listed(mine, s.e.ID)) },
		"ResendFailed": func(s stack) error {
			count, _, err := s.log.ResendFailed(t.Context(), mine, s.e.ID, noon)
			if err == nil && count != 1 {
				t.Errorf("%d resent", count)
			}
			return err
		},
		"Publish":  func(s stack) error { return s.publish(event) },
		"Announce": func(s stack) error { return s.publisher.Announce(t.Context(), mine, "api_key.created", noon, "data") },
		"Named":    func(s stack) error { return must.Err(s.publisher.Named(t.Context(), mine, webhook.PaymentMined)) },
		"Deliver":  func(s stack) error { return s.deliverer.Deliver(t.Context(), s.job) },
		"PushDue":  func(s stack) error { return s.pusher.PushDue(t.Context(), noon, 1) },
	} {
		s := build()
		must.OK(t, call(s))
		for n, effect := range s.faults.names {
			if effect == "Post" || name == "ResendFailed" && effect == "Enqueue" {
				continue
			}
			s := build()
			s.faults.plan = func(at int, _ string) fault { return map[int]fault{n: before}[at] }
			if err := call(s); !errors.Is(err, errFault) {
				t.Errorf("%s: %s, effect %d, fails: %v", name, effect, n, err)
			}
		}
	}
	if err := newFixture(t).publisher.Announce(t.Context(), mine, "api_key.created", noon, func() {}); err == nil {
		t.Error("a function is announced")
	}
}

// TestChangedMeanwhile: a change is made to the endpoint as another writer leaves it.
func TestChangedMeanwhile(t *testing.T) {
	for name, test := range map[string]struct {
		other func(w *fixture, e webhook.Endpoint) error
		want  error
	}{
		"changed": {func(w *fixture, e webhook.Endpoint) error {
			return must.Err(w.registry.Update(t.Context(), mine, e.ID, webhook.Change{Description: new("other")}))
		}, nil},
		"deleted": {func(w *fixture, e webhook.Endpoint) error { return w.registry.Delete(t.Context(), mine, e.ID) }, webhook.ErrNotFound},
	} {
		w, e := registered(t)
		registry := &webhook.Registry{Store: w.ports, URLs: checker{}, Now: w.now, Random: rand.Reader}
		w.faults.plan = func(n int, name string) fault {
			if name == "SaveEndpoint" && n < 2 {
				must.OK(t, test.other(w, e))
			}
			return none
		}
		got, err := registry.Update(t.Context(), mine, e.ID, disable)
		if !errors.Is(err, test.want) || err == nil && (got.Description != "other" || got.Status != webhook.Disabled) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}
