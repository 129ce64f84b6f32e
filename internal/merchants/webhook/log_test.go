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

// TestAResendSurvivesAQueueOutage: it is answered with success, so it must
// arrive.
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

// TestASearchIsNeverPartial: an operator would take the failures of a part of the
// log for all.
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
