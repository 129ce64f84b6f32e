package webhook_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/proof/must"
)

func TestResendIsTheSameEvent(t *testing.T) {
	w, e := delivered(t)
	first := w.newest(e)
	w.clock = w.now().Add(30 * 24 * time.Hour)
	d := must.Get(w.log.Resend(t.Context(), mine, e.ID, first.Delivery))(t)
	w.has(1, 1)
	w.drain()
	if len(w.posts) != 2 || w.posts[0].body != w.posts[1].body ||
		w.posts[0].header.Get(webhook.HeaderID) != w.posts[1].header.Get(webhook.HeaderID) {
		t.Fatalf("posts: %v", w.posts)
	}
	w.verified(w.posts[1], e.Secret)
	newest := w.newest(e)
	if d.Delivery == first.Delivery || newest.Delivery != d.Delivery || newest.Status != webhook.Delivered {
		t.Errorf("resent as %s, newest %s is %s", d.Delivery, newest.Delivery, newest.Status)
	}
}

// TestAResendSurvivesAQueueOutage: it is answered with success, so it must arrive.
func TestAResendSurvivesAQueueOutage(t *testing.T) {
	w, e := delivered(t)
	w.outage("Enqueue", before)
	must.OK(t, w.resend(e, w.newest(e)))
	w.drain()
	w.has(2, 0)
	w.logged(e, webhook.Delivered, 1)
}

// TestFailedInAWindow: an operator resends the events that an outage of the
// endpoint left undelivered, and may do so again.
func TestFailedInAWindow(t *testing.T) {
	w := newFixture(t)
	e := w.register(mine, hook)
	at := func(hour int) time.Time { return noon.Add(time.Duration(hour) * time.Hour) }
	send := func(hour, n, status int) {
		w.clock = at(hour)
		w.answers[hook] = statuses(status)
		if status == 410 {
			w.change(e, enable)
		}
		w.mustPublish(w.numbered(n))
		w.drain()
	}
	send(0, 1, 410) // before the window
	send(1, 2, 410)
	w.change(e, enable)
	must.OK(t, w.resend(e, w.newest(e))) // fails again
	w.drain()
	send(2, 3, 200) // missed: the endpoint is disabled
	w.change(e, enable)
	send(3, 4, 200)
	send(4, 5, 410)
	send(5, 6, 410) // after the window
	w.clock = at(6)
	failed := func(want ...string) {
		t.Helper()
		list := must.Get(w.log.Failed(t.Context(), mine, e.ID, at(1), at(5)))(t)
		if !slices.EqualFunc(list, want, func(d webhook.Delivery, id string) bool { return d.Event.ID == id }) {
			t.Errorf("failed: %+v, want %v", list, want)
		}
	}
	failed("evt_2", "evt_3", "evt_5")
	if _, err := w.log.ResendFailed(t.Context(), mine, e.ID, at(1), at(5)); !errors.Is(err, webhook.ErrDisabled) {
		t.Errorf("to a disabled endpoint: %v", err)
	}
	w.change(e, enable)
	w.answers[hook] = statuses(200)
	resent, err := w.log.ResendFailed(t.Context(), mine, e.ID, at(1), at(5))
	if err != nil || len(resent) != 3 {
		t.Errorf("%d resent, %v", len(resent), err)
	}
	failed() // they are on their way again
	w.drain()
	if again, err := w.log.ResendFailed(t.Context(), mine, e.ID, at(1), at(5)); err != nil || len(again) != 0 {
		t.Errorf("a second time: %d resent, %v", len(again), err)
	}
	w.drain()
	w.has(6+3, 0)
}

// TestASearchIsNeverPartial: an operator would take the failures of a part of the log for all.
func TestASearchIsNeverPartial(t *testing.T) {
	w := newFixture(t)
	e := w.register(mine, hook)
	log := webhook.NewLog(busy{w.store}, w, w.now, rand.Reader)
	if failed, err := log.Failed(t.Context(), mine, e.ID, noon, noon.Add(time.Hour)); !errors.Is(err, webhook.ErrTooMany) || failed != nil {
		t.Errorf("%d failed, %v", len(failed), err)
	}
}

// A busy store has as many deliveries as its caller's limit.
type busy struct{ webhook.Store }

func (busy) Deliveries(_ context.Context, _ webhook.Owner, _ string, _, _ time.Time, limit int) ([]webhook.Delivery, error) {
	return make([]webhook.Delivery, limit), nil
}

// TestALostJobIsFailed: the queue gave up the job of a second attempt, or was emptied.
func TestALostJobIsFailed(t *testing.T) {
	w, e := published(t, 500, 200)
	w.work()
	w.jobs = nil
	for after, want := range map[time.Duration]int{time.Hour + 5*time.Second: 0, time.Hour + 5*time.Second + 1: 1} {
		w.clock = noon.Add(after)
		failed, err := w.log.Failed(t.Context(), mine, e.ID, noon, w.now())
		if err != nil || len(failed) != want {
			t.Errorf("after %v: %d failed, %v", after, len(failed), err)
		}
	}
	w.clock = noon.Add(2 * time.Hour)
	must.Get(w.log.ResendFailed(t.Context(), mine, e.ID, noon, w.now()))(t)
	w.drain()
	w.has(2, 0)
	w.logged(e, webhook.Delivered, 1)
}

// numbered returns event with an id of its own and the present time.
func (w *fixture) numbered(n int) webhook.Event {
	ev := event
	ev.ID, ev.At = fmt.Sprint("evt_", n), w.now()
	ev.Body = fmt.Appendf(nil, `{"id":%q,"type":"payment.confirmed","data":{"reference":"Söđ 🧁"}}`, ev.ID)
	return ev
}

// TestTwoExhaustedEventsAndFiveDaysWithoutASuccessDisable spells the rule out: a row gives the hours, from a first
// success at 0, at which events happen that the endpoint refuses ten times over 75 hours and 35 minutes, or takes.
func TestTwoExhaustedEventsAndFiveDaysWithoutASuccessDisable(t *testing.T) {
	type at struct {
		hour int
		ok   bool
	}
	for _, test := range []struct {
		name string
		days []at
		want webhook.Status
	}{
		{"one exhausted event is not enough, however long ago the success", []at{{100, false}}, webhook.Enabled},
		{"two within 120 hours are not enough", []at{{1, false}, {2, false}}, webhook.Enabled},
		{"two, the second of them after 120 hours", []at{{1, false}, {46, false}}, webhook.Disabled},
		{"two, the second of them just before 120 hours", []at{{1, false}, {43, false}}, webhook.Enabled},
		{"a third one reaches 120 hours", []at{{1, false}, {2, false}, {60, false}}, webhook.Disabled},
		{"long silence before two failures counts, too", []at{{100, false}, {101, false}}, webhook.Disabled},
		{"a success between them starts again", []at{{1, false}, {90, true}, {91, false}}, webhook.Enabled},
		{"and the 120 hours start at that success", []at{{1, false}, {90, true}, {91, false}, {92, false}}, webhook.Enabled},
		{"until they are over", []at{{1, false}, {90, true}, {91, false}, {140, false}}, webhook.Disabled},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newFixture(t)
			e := w.register(mine, hook)
			start := w.now()
			w.mustPublish(w.numbered(0))
			w.until(start.Add(time.Second))
			for i, ev := range test.days {
				happens := start.Add(time.Duration(ev.hour) * time.Hour)
				w.until(happens)
				w.clock = happens
				w.mustPublish(w.numbered(i + 1))
				w.answers[hook] = statuses(500)
				if ev.ok {
					// The one of this event alone: others wait for hours.
					w.answers[hook] = statuses(200, 500)
				}
				w.work()
			}
			w.drain()
			if got := w.status(e); got != test.want {
				t.Errorf("endpoint is %s, want %s", got, test.want)
			}
		})
	}
}

// TestLastSuccess: an endpoint that begins to fail has been quiet since its newest success in the log, or since it was
// enabled if the log is short and has none. Of a long log without one nothing is known.
func TestLastSuccess(t *testing.T) {
	for _, test := range []struct {
		failed, succeeded int // deliveries in the log, a minute apart, the successes first
		want              time.Duration
	}{
		{199, 0, 0}, {200, 0, 3 * time.Hour}, {200, 1, 3 * time.Hour}, {198, 1, time.Minute}, {199, 2, 2 * time.Minute},
		{1, 3, 3 * time.Minute},
	} {
		w := newFixture(t)
		e := w.register(mine, hook)
		for n := 1; n <= test.failed+test.succeeded; n++ {
			at := noon.Add(time.Duration(n) * time.Minute)
			d := webhook.Delivery{Ref: webhook.Ref{Owner: mine, Endpoint: e.ID, Delivery: webhook.FirstID(at)}, Event: w.numbered(n),
				Status: webhook.Delivered, CreatedAt: at, Attempts: []webhook.Attempt{{At: at, StatusCode: 200}}}
			if n > test.succeeded {
				d.Status, d.Attempts[0].StatusCode = webhook.Exhausted, 500
			}
			must.OK(t, w.store.AddDelivery(t.Context(), d))
		}
		w.clock = noon.Add(3 * time.Hour)
		w.answers[hook] = statuses(500)
		w.mustPublish(event)
		w.work()
		if got, err := w.store.Endpoint(t.Context(), mine, e.ID); err != nil || !got.QuietSince.Equal(noon.Add(test.want)) {
			t.Errorf("%+v: quiet since %v, %v", test, got.QuietSince, err)
		}
	}
}

// TestReenablingResumes: events of the meantime are in the log, and the count of failures starts afresh.
func TestReenablingResumes(t *testing.T) {
	w, e := delivered(t, 410, 200)
	w.clock = w.now().Add(time.Minute)
	w.mustPublish(w.numbered(2))
	w.drain()
	missed := w.logged(e, webhook.Cancelled, 0)
	if a, ok := missed.LastAttempt(); ok {
		t.Errorf("attempted: %+v", a)
	}
	if err := w.resend(e, missed); !errors.Is(err, webhook.ErrDisabled) {
		t.Errorf("resending to a disabled endpoint: %v", err)
	}
	w.change(e, enable)
	w.mustPublish(w.numbered(3))
	must.OK(t, w.resend(e, missed))
	w.drain()
	var got []string
	for _, p := range w.posts {
		got = append(got, p.header.Get(webhook.HeaderID))
	}
	if !slices.Equal(got, []string{"evt_1", "evt_3", "evt_2"}) {
		t.Errorf("sent %v", got)
	}
	now, err := w.store.Endpoint(t.Context(), mine, e.ID)
	if err != nil || !now.QuietSince.IsZero() || now.Exhausted != "" || now.EnabledAt.Equal(e.EnabledAt) {
		t.Errorf("%+v, %v", now, err)
	}
}

// TestAMerchantsChangeWinsOverAnAssessment: if the endpoint changes during an
// attempt, the attempt's result is applied to the changed endpoint.
func TestAMerchantsChangeWinsOverAnAssessment(t *testing.T) {
	for _, test := range []struct {
		name string
		act  func(*fixture, webhook.Endpoint)
		want webhook.Status
	}{
		{"changed", func(w *fixture, e webhook.Endpoint) { w.change(e, webhook.Change{Description: new("new")}) }, webhook.Disabled},
		{"disabled", func(w *fixture, e webhook.Endpoint) { w.change(e, disable) }, webhook.Disabled},
		{"deleted", func(w *fixture, e webhook.Endpoint) {
			must.OK(w.t, w.registry.Delete(context.Background(), mine, e.ID))
		}, webhook.Deleted},
	} {
		t.Run(test.name, func(t *testing.T) {
			w, e := published(t, 410)
			w.faults.plan = func(_ int, name string) fault {
				if name == "Post" {
					test.act(w, e)
				}
				return none
			}
			w.drain()
			got, err := w.store.Endpoint(t.Context(), mine, e.ID)
			if err != nil || got.Status != test.want {
				t.Errorf("endpoint is %s, %v", got.Status, err)
			}
			if test.name == "changed" && got.Description != "new" {
				t.Error("the change was lost")
			}
			w.logged(e, webhook.Cancelled, 1)
		})
	}
}
