package webhook_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"remit/internal/webhook"
)

// life takes one event to two endpoints, one of which fails until its delivery
// was parked and pushed. The event is published until that succeeds, as
// settlement does.
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
	endpoints, err := w.store.Endpoints(t.Context(), mine)
	must(t, err)
	for _, e := range endpoints {
		posts := w.to(e.URL)
		took := slices.ContainsFunc(posts, func(p post) bool { return p.answer.StatusCode == 200 })
		if !took {
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
		if all, err := w.log.Deliveries(t.Context(), mine, e.ID); err != nil || len(all) != 1 {
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

// TestEveryFault lets each effect of an event's life fail in every way, one at a
// time and two at a time.
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

// TestAnOutageLosesNothing lets every effect of one kind fail for an hour.
func TestAnOutageLosesNothing(t *testing.T) {
	for _, name := range []string{"Enqueue", "Record", "Load", "Post", "Unpark", "Due", "SaveEndpoint", "AddDelivery", "Endpoints"} {
		for _, kind := range []fault{before, after} {
			t.Run(fmt.Sprint(name, " fails ", kind), func(t *testing.T) {
				w := newFixture(t)
				e := w.register(mine, "https://good.example")
				w.answers[e.URL] = statuses(500, 500, 200)
				w.outage(name, kind)
				for w.publish(event) != nil {
					w.until(w.now().Add(time.Minute))
					w.clock = w.now().Add(time.Minute)
				}
				w.drain()
				checkInvariants(w)
			})
		}
	}
}

// TestAJobThatComesTwice lets a second copy of a job be done completely before
// each effect of the first.
func TestAJobThatComesTwice(t *testing.T) {
	undisturbed := life(t, func(*fixture) {})
	for at := range len(undisturbed.faults.names) {
		w := life(t, func(w *fixture) {
			w.faults.plan = func(n int, _ string) fault {
				if n != at {
					return none
				}
				for _, job := range slices.Clone(w.made) {
					if err := webhook.NewDeliverer(w.store, w, w, w.meter, w.now, half).Deliver(t.Context(), job); err != nil {
						t.Errorf("the copy of a job: %v", err)
					}
				}
				return none
			}
		})
		checkInvariants(w)
		if t.Failed() {
			t.Fatalf("with a copy before effect %d of %v", at, w.faults.names)
		}
	}
}

// TestPublishingTwiceMakesOneDelivery: settlement publishes an event again
// whenever it cannot know that the last try succeeded.
func TestPublishingTwiceMakesOneDelivery(t *testing.T) {
	w := newFixture(t)
	e := w.register(mine, "https://good.example")
	w.mustPublish(event)
	first, _, err := webhook.ParseJob(w.made[0])
	must(t, err)
	w.clock = w.now().Add(time.Hour)
	w.mustPublish(event)
	w.drain()
	w.mustPublish(event)
	w.drain()
	list, err := w.log.Deliveries(t.Context(), mine, e.ID)
	if err != nil || len(list) != 1 || list[0].Delivery != first.Delivery {
		t.Errorf("%d deliveries, %v", len(list), err)
	}
	w.has(1, 0)
}
