package storetest

import (
	"testing"
	"time"

	"remit/internal/webhook"
)

// waits returns the deliveries of o that are due at at.
func waits(t *testing.T, s webhook.Store, o webhook.Owner, at time.Time) []webhook.Due {
	t.Helper()
	all, err := s.Due(t.Context(), at, 10_000)
	ok(t, err)
	due := []webhook.Due{}
	for i, d := range all {
		if i > 0 && d.At.Before(all[i-1].At) {
			t.Errorf("%s is listed after one that waits less", d.Delivery)
		}
		if d.Owner == o {
			due = append(due, d)
		}
	}
	return due
}

// eventually asks until o's due deliveries are the ones wanted.
func eventually(t *testing.T, s webhook.Store, o webhook.Owner, at time.Time, want ...webhook.Due) {
	t.Helper()
	var got []webhook.Due
	for range 100 {
		if got = waits(t, s, o, at); len(got) == len(want) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if want == nil {
		want = []webhook.Due{}
	}
	same(t, "due", got, want)
}

func dueOf(d webhook.Delivery) webhook.Due { return webhook.Due{Ref: d.Ref, At: d.NextAttemptAt} }

func dueFromItsTime(t *testing.T, s webhook.Store) {
	o := owner()
	var ds []webhook.Delivery
	for minute := range 5 {
		d := tried(deliveryOf(o, "we_1", noon), noon.Add(time.Duration(minute)*time.Minute), true)
		add(t, s, d)
		ds = append(ds, d)
	}
	add(t, s, tried(deliveryOf(o, "we_1", noon), noon, false))
	eventually(t, s, o, ds[2].NextAttemptAt, dueOf(ds[0]), dueOf(ds[1]), dueOf(ds[2]))
	eventually(t, s, o, ds[0].NextAttemptAt.Add(-time.Millisecond))
	if few, err := s.Due(t.Context(), ds[4].NextAttemptAt, 1); err != nil || len(few) != 1 {
		t.Errorf("at most one: %v, %v", few, err)
	}
	if none, err := s.Due(t.Context(), ds[4].NextAttemptAt, 0); err != nil || len(none) != 0 {
		t.Errorf("at most none: %v, %v", none, err)
	}
}

func dueUntil(t *testing.T, s webhook.Store) {
	o := owner()
	unparked := tried(deliveryOf(o, "we_1", noon), noon, true)
	delivered := tried(deliveryOf(o, "we_1", noon), noon.Add(time.Second), true)
	later := tried(deliveryOf(o, "we_1", noon), noon.Add(2*time.Second), true)
	add(t, s, unparked)
	add(t, s, delivered)
	add(t, s, later)
	at := later.NextAttemptAt
	eventually(t, s, o, at, dueOf(unparked), dueOf(delivered), dueOf(later))

	ok(t, s.Unpark(t.Context(), dueOf(unparked)))
	ok(t, s.Unpark(t.Context(), dueOf(unparked)))
	record(t, s, ended(tried(delivered, noon, false), webhook.Delivered), 1)
	moved := tried(later, noon.Add(time.Hour), true)
	record(t, s, moved, 1)
	eventually(t, s, o, at)
	eventually(t, s, o, moved.NextAttemptAt, dueOf(moved))

	want := unparked
	want.Parked = false
	same(t, "unparked", load(t, s, unparked.Ref), want)
}

func unparkOther(t *testing.T, s webhook.Store) {
	d := tried(deliveryOf(owner(), "we_1", noon), noon, true)
	ok(t, s.Unpark(t.Context(), dueOf(d))) // there is no such delivery
	add(t, s, d)
	other := dueOf(d)
	other.At = other.At.Add(time.Second)
	ok(t, s.Unpark(t.Context(), other))
	same(t, "stored", load(t, s, d.Ref), d)
	if _, _, err := s.Load(t.Context(), d.Ref); err != nil {
		t.Error(err)
	}
}
