package webhook_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/tabletest"
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

// TestPagesOfALog: they have every delivery once, newest first, also of a rare status, and of many in one millisecond.
func TestPagesOfALog(t *testing.T) {
	w, e := registered(t)
	all := map[webhook.DeliveryStatus][]string{}
	for n := range 450 {
		at := noon.Add(time.Duration(n/10) * time.Millisecond)
		id := webhook.FirstID(at)
		d := webhook.Delivery{Ref: webhook.Ref{Owner: mine, Endpoint: e.ID, Delivery: id[:len(id)-1] + fmt.Sprint(n%10)},
			Status: webhook.Delivered, CreatedAt: at}
		if n == 3 || n%97 == 0 {
			d.Status = webhook.Exhausted
		}
		must.OK(t, w.store.AddDelivery(t.Context(), d))
		all[""], all[d.Status] = append(all[""], d.Delivery), append(all[d.Status], d.Delivery)
	}
	all[webhook.Cancelled] = nil
	for status, want := range all {
		slices.Reverse(want)
		for _, limit := range []int{1, 7, 100} {
			var got []string
			pages := 0
			for after := ""; pages == 0 || after != ""; pages++ {
				page, next, err := w.log.Page(t.Context(), mine, e.ID, status, time.Time{}, after, limit)
				if must.OK(t, err); len(page) > limit || after != "" && next >= after {
					t.Fatalf("%d deliveries of %d, from %s to %s", len(page), limit, after, next)
				}
				for _, d := range page {
					got = append(got, d.Delivery)
				}
				after = next
			}
			if !slices.Equal(got, want) || len(want) < 10 && pages > len(want)+4 {
				t.Errorf("%q by %d: %d of %d on %d pages", status, limit, len(got), len(want), pages)
			}
		}
	}
}

// TestFailed: the events that an outage of the endpoint left undelivered are resent, also twice.
func TestFailed(t *testing.T) {
	w, e := registered(t)
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
	send(0, 1, 410) // before
	send(1, 2, 410)
	w.change(e, enable)
	must.OK(t, w.resend(e, w.newest(e))) // fails again
	w.drain()
	send(2, 3, 200) // missed: the endpoint is disabled
	w.change(e, enable)
	send(3, 4, 200)
	send(4, 5, 410)
	send(5, 6, 410)
	w.clock = at(6)
	failed := func(since time.Time, want ...string) {
		t.Helper()
		list := must.Get(w.log.Failed(t.Context(), mine, e.ID, since, time.Time{}, 100))(t)
		if !slices.EqualFunc(list, want, func(d webhook.Delivery, id string) bool { return d.Event.ID == id }) {
			t.Errorf("failed: %+v, want %v", list, want)
		}
	}
	failed(at(1), "evt_2", "evt_3", "evt_5", "evt_6")
	failed(at(1).Add(1), "evt_3", "evt_5", "evt_6") // by the end of the newest delivery, inclusive
	resend := func(want int, wantErr error) {
		t.Helper()
		count, more, err := w.log.ResendFailed(t.Context(), mine, e.ID, at(1))
		if count != want || more || !errors.Is(err, wantErr) {
			t.Errorf("%d resent, more: %v, %v", count, more, err)
		}
	}
	resend(0, webhook.ErrDisabled)
	w.change(e, enable)
	w.answers[hook] = statuses(200)
	resend(4, nil)
	failed(at(1)) // they are on their way again
	w.drain()
	resend(0, nil)
	w.drain()
	w.has(6+4, 0)
	must.OK(t, w.registry.Delete(t.Context(), mine, e.ID))
	resend(0, webhook.ErrNotFound)
}

// TestResendingGoesOn: one call resends a thousand events, the oldest, and another the rest.
func TestResendingGoesOn(t *testing.T) {
	w, e := registered(t)
	for n := range 1002 {
		at := noon.Add(time.Duration(n) * time.Millisecond)
		d := webhook.Delivery{Ref: webhook.Ref{Owner: mine, Endpoint: e.ID, Delivery: webhook.FirstID(at)},
			Event: w.numbered(n), Status: webhook.Exhausted, CreatedAt: at, EndedAt: at.Add(time.Hour)}
		must.OK(t, w.store.AddDelivery(t.Context(), d))
	}
	w.clock = noon.Add(24 * time.Hour)
	since := noon.Add(time.Hour) // each was created before
	var counts []any
	resent := map[string]bool{}
	for range 3 {
		w.clock = w.now().Add(time.Second)
		count, more, err := w.log.ResendFailed(t.Context(), mine, e.ID, since)
		must.OK(t, err)
		counts = append(counts, count, more)
	}
	if want := []any{1000, true, 2, false, 0, false}; !slices.Equal(counts, want) {
		t.Errorf("%v, want %v", counts, want)
	}
	for _, d := range must.Get(w.listed(mine, e.ID))(t)[:2] {
		resent[d.Event.ID] = true
	}
	if !resent["evt_1000"] || !resent["evt_1001"] {
		t.Errorf("resent last: %v", resent)
	}
}

// TestASearchIsNeverPartial: an operator would take the failures of a part of the log for all.
func TestASearchIsNeverPartial(t *testing.T) {
	w, e := registered(t)
	log := &webhook.Log{Store: busy{w.store}, Queue: w, Now: w.now, Random: rand.Reader}
	failed, err := log.Failed(t.Context(), mine, e.ID, noon, time.Time{}, 100)
	if !errors.Is(err, webhook.ErrTooMany) || failed != nil {
		t.Errorf("%d failed, %v", len(failed), err)
	}
}

// A busy store has as many deliveries as its caller's limit.
type busy struct{ webhook.Store }

func (busy) Deliveries(_ context.Context, _ webhook.Owner, _ string, _, _ time.Time, n int) ([]webhook.Delivery, error) {
	return make([]webhook.Delivery, n), nil
}

// TestALostJobIsFailed: the queue gave up the job of a second attempt, or was emptied.
func TestALostJobIsFailed(t *testing.T) {
	w, e := published(t, 500, 200)
	w.work()
	w.jobs = nil
	for after, want := range map[time.Duration]int{time.Hour + 5*time.Second: 0, time.Hour + 5*time.Second + 1: 1} {
		w.clock = noon.Add(after)
		failed, err := w.log.Failed(t.Context(), mine, e.ID, noon, w.now().Add(-time.Hour), 100)
		if err != nil || len(failed) != want {
			t.Errorf("after %v: %d failed, %v", after, len(failed), err)
		}
	}
	w.clock = noon.Add(2 * time.Hour)
	lost := must.Get(w.log.Failed(t.Context(), mine, e.ID, noon, w.now().Add(-time.Hour), 100))(t)
	must.Get(w.log.ResendAll(t.Context(), lost))(t)
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
	tabletest.Run(t, nil, func(t *testing.T, c tabletest.Case) {
		w, e := registered(t)
		start := w.now()
		w.mustPublish(w.numbered(0))
		w.until(start.Add(time.Second))
		for i, day := range strings.Fields(c.In[0]) {
			hour, taken := strings.CutSuffix(day, "!")
			happens := start.Add(must.Get(time.ParseDuration(hour + "h"))(t))
			w.until(happens)
			w.clock = happens
			w.mustPublish(w.numbered(i + 1))
			w.answers[hook] = statuses(500)
			if taken { // this event alone: others wait for hours
				w.answers[hook] = statuses(200, 500)
			}
			w.work()
		}
		w.drain()
		if got := w.status(e); string(got) != c.Want {
			t.Errorf("endpoint is %s, want %s", got, c.Want)
		}
	})
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
		w, e := registered(t)
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

// TestAMerchantsChangeWinsOverAnAssessment: an attempt's result is applied to an endpoint that has changed meanwhile.
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
			w.logged(e, webhook.Exhausted, 1)
		})
	}
}

// TestAnEventGoesToWhoSubscribed: an endpoint for all events is not for payment.mined.
func TestAnEventGoesToWhoSubscribed(t *testing.T) {
	w := newFixture(t)
	w.register(mine, "https://all.example")
	w.register(mine, "https://confirmed.example", webhook.PaymentConfirmed)
	w.register(mine, "https://test.example", webhook.TestType)
	w.register(webhook.Owner{Merchant: "mer_2", Mode: "live"}, "https://other.example")
	w.register(webhook.Owner{Merchant: "mer_1", Mode: "test"}, "https://mode.example")
	for _, want := range []bool{false, true} {
		if named, err := w.publisher.Named(t.Context(), mine, webhook.PaymentMined); err != nil || named != want {
			t.Errorf("named: %t, %v, want %t", named, err, want)
		}
		w.register(mine, "https://mined.example", webhook.PaymentFailed, webhook.PaymentMined)
	}
	mined := event
	mined.Type = webhook.PaymentMined
	w.mustPublish(event)
	w.mustPublish(mined)
	w.drain()
	var got []string
	for _, p := range w.posts {
		got = append(got, p.url)
	}
	slices.Sort(got)
	const all, confirmed, named = "https://all.example", "https://confirmed.example", "https://mined.example"
	if want := []string{all, confirmed, named, named}; !slices.Equal(got, want) {
		t.Errorf("sent to %v, want %v", got, want)
	}
}

// TestOneReadForAllEndpoints: publishing costs one read and one job per endpoint, disabled ones too: publishers may not
// write to the table. A healthy endpoint's item, which would be the hottest, is not written.
func TestOneReadForAllEndpoints(t *testing.T) {
	w := newFixture(t)
	w.register(mine, "https://1.example")
	off := w.register(mine, "https://2.example")
	w.mustPublish(event)
	w.drain()
	w.change(off, disable)
	w.mustPublish(event)
	want := "Endpoints Enqueue Enqueue Load Post Record Load Post Record Endpoints Enqueue Enqueue"
	if got := strings.Join(w.faults.names, " "); got != want {
		t.Errorf("made the calls %s, want %s", got, want)
	}
}

// TestAnEventOfAnyBodyAndTimeIsPublished: settlement keeps an event until it is published: another would stay for ever.
func TestAnEventOfAnyBodyAndTimeIsPublished(t *testing.T) {
	for body, at := range map[string]time.Time{``: noon, `null`: {}, `{"timestamp":"soon"}`: time.Unix(-1, 0),
		"\xff": noon.Add(time.Nanosecond)} {
		w := newFixture(t)
		e, off := w.register(mine, hook), w.register(mine, "https://off.example")
		w.change(off, disable)
		ev := event
		ev.At, ev.Body = at, []byte(body)
		for range 2 {
			w.mustPublish(ev)
		}
		w.drain()
		if len(w.posts) == 0 || w.posts[0].body != body || w.newest(e).Status != webhook.Delivered {
			t.Errorf("%q: %d posts", body, len(w.posts))
		}
		if d := w.newest(off); !d.CreatedAt.Equal(at.Truncate(time.Millisecond)) {
			t.Errorf("%q: the delivery of a disabled endpoint was created at %v", body, d.CreatedAt)
		}
	}
}

// TestAMachineWithAFastClockDoesNotDelayTheFirstAttempt: the settling machine's clock sets the event's time.
func TestAMachineWithAFastClockDoesNotDelayTheFirstAttempt(t *testing.T) {
	w, _ := registered(t)
	w.clock = noon.Add(-10 * time.Minute)
	w.mustPublish(event)
	w.work()
	w.has(1, 0)
}

func TestPushDueMakesEachJobOnce(t *testing.T) {
	w, e := registered(t)
	w.answers[hook] = statuses(500)
	for i := range 5 {
		w.mustPublish(w.numbered(i))
	}
	for len(w.posts) < 15 {
		w.work()
		w.clock = w.now().Add(time.Second)
	}
	at := w.newest(e).NextAttemptAt.Add(time.Minute)
	w.clock = at
	for _, want := range []int{2, 2, 1, 0} {
		w.meter.values, w.jobs = nil, nil
		if err := w.pusher.PushDue(t.Context(), at, 2); err != nil || len(w.jobs) != want {
			t.Errorf("pushed %d, %v; want %d", len(w.jobs), err, want)
		}
		if oldest := w.meter.values["WebhookOldestDue"]; want > 0 && (oldest < 60 || oldest > 120) || want == 0 && oldest != 0 {
			t.Errorf("oldest due for %v s", oldest)
		}
	}
	w.has(15, 0)
}

// TestPushDueTakesTurns: a backlog of one merchant holds up no delivery of another, not even the newest of all.
func TestPushDueTakesTurns(t *testing.T) {
	w := newFixture(t)
	for n := range 100 {
		o := webhook.Owner{Merchant: "mer_busy", Mode: "live"}
		if n == 99 {
			o.Merchant = "mer_quiet"
		}
		must.OK(t, w.store.AddDelivery(t.Context(), webhook.Delivery{
			Ref:    webhook.Ref{Owner: o, Endpoint: "we_1", Delivery: fmt.Sprintf("dlv_%032x", n)},
			Status: webhook.Pending, NextAttemptAt: noon.Add(time.Duration(n) * time.Second), Parked: true,
		}))
	}
	must.OK(t, w.pusher.PushDue(t.Context(), noon.Add(time.Hour), 2))
	var pushed []string
	for _, j := range w.jobs {
		pushed = append(pushed, strings.Split(j.text, "/")[1])
	}
	slices.Sort(pushed)
	if diff := cmp.Diff([]string{"mer_busy", "mer_quiet"}, pushed); diff != "" {
		t.Errorf("pushed (-want +got):\n%s", diff)
	}
}
