package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// numbered returns event with an id of its own and the present time.
func (w *fixture) numbered(n int) webhook.Event {
	ev := event
	ev.ID, ev.At = fmt.Sprint("evt_", n), w.now()
	ev.Body = fmt.Appendf(nil, `{"id":%q,"type":"payment.confirmed","data":{"reference":"Söđ 🧁"}}`, ev.ID)
	return ev
}

// TestTwoExhaustedEventsAndFiveDaysWithoutASuccessDisable spells the rule out: a
// row gives the hours, from a first success at 0, at which events happen that
// the endpoint refuses ten times over 75 hours and 35 minutes, or takes.
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

// TestLastSuccess: an endpoint that begins to fail has been quiet since its newest success
// in the log, or since it was enabled if the log is short and has none. Of a long log without
// one nothing is known.
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

// TestReenablingResumes: events of the meantime are in the log, and the count of
// failures starts afresh.
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
