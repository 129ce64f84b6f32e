package storetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"remit/internal/webhook"
)

func add(t *testing.T, s webhook.Store, ds ...webhook.Delivery) {
	t.Helper()
	ok(t, s.AddDeliveries(t.Context(), ds))
}

func load(t *testing.T, s webhook.Store, r webhook.Ref) webhook.Delivery {
	t.Helper()
	_, d, err := s.Load(t.Context(), r)
	ok(t, err)
	return d
}

func record(t *testing.T, s webhook.Store, d webhook.Delivery, attempts int) {
	t.Helper()
	stored, err := s.Record(t.Context(), d, attempts)
	ok(t, err)
	same(t, "recorded", stored, d)
}

func deliveryAsStored(t *testing.T, s webhook.Store) {
	o := owner()
	full := deliveryOf(o, "we_1", noon)
	full = tried(tried(full, noon, false), noon.Add(time.Minute), true)
	bare := deliveryOf(o, "we_1", noon)
	bare.Event.At, bare.CreatedAt = time.Time{}, time.Time{} // of an event that does not say when
	for _, d := range []webhook.Delivery{full, ended(deliveryOf(o, "we_1", noon), webhook.Cancelled), bare} {
		add(t, s, d)
		same(t, "delivery", load(t, s, d.Ref), d)
	}
}

func deliveryEndpoint(t *testing.T, s webhook.Store) {
	e := endpointOf(t, owner(), noon)
	d := deliveryOf(e.Owner, e.ID, noon)
	if _, _, err := s.Load(t.Context(), d.Ref); !errors.Is(err, webhook.ErrDeliveryNotFound) {
		t.Errorf("neither exists: %v", err)
	}
	add(t, s, d)
	missing, _, err := s.Load(t.Context(), d.Ref)
	if err != nil || missing.Status != webhook.Deleted {
		t.Errorf("no endpoint: %+v, %v", missing, err)
	}
	ok(t, s.AddEndpoint(t.Context(), e, 10))
	e.Status = webhook.Disabled
	e, err = s.SaveEndpoint(t.Context(), e)
	ok(t, err)
	got, _, err := s.Load(t.Context(), d.Ref)
	ok(t, err)
	same(t, "endpoint", got, e)
	e.Status = webhook.Deleted
	_, err = s.SaveEndpoint(t.Context(), e)
	ok(t, err)
	if got, _, err = s.Load(t.Context(), d.Ref); err != nil || got.Status != webhook.Deleted {
		t.Errorf("deleted endpoint: %+v, %v", got, err)
	}
	other := d.Ref
	other.Merchant = owner().Merchant
	if _, _, err := s.Load(t.Context(), other); !errors.Is(err, webhook.ErrDeliveryNotFound) {
		t.Errorf("another merchant: %v", err)
	}
}

func deliveryTwice(t *testing.T, s webhook.Store) {
	o := owner()
	a, b := deliveryOf(o, "we_1", noon), deliveryOf(o, "we_2", noon)
	add(t, s, a, b)
	a2 := tried(a, noon, false)
	record(t, s, a2, 0)
	b2 := ended(b, webhook.Cancelled)
	record(t, s, b2, 0)
	add(t, s, a, b)
	add(t, s, a)
	same(t, "first", load(t, s, a.Ref), a2)
	same(t, "second", load(t, s, b.Ref), b2)
}

func deliveryMissing(t *testing.T, s webhook.Store) {
	o := owner()
	ds := make([]webhook.Delivery, webhook.EndpointLimit)
	for i := range ds {
		ds[i] = deliveryOf(o, fmt.Sprint("we_", i), noon)
	}
	add(t, s, ds[3], ds[7])
	add(t, s, ds...)
	for _, d := range ds {
		same(t, "delivery", load(t, s, d.Ref), d)
	}
}

func recordInOrder(t *testing.T, s webhook.Store) {
	d := deliveryOf(owner(), "we_1", noon)
	add(t, s, d)
	for i := range 9 {
		d = tried(d, noon.Add(time.Duration(i)*time.Hour), i%2 == 0)
		record(t, s, d, i)
		same(t, "stored", load(t, s, d.Ref), d)
	}
	d = ended(tried(d, noon.Add(time.Hour), false), webhook.Exhausted)
	record(t, s, d, 9)
	same(t, "stored", load(t, s, d.Ref), d)
}

func recordConflict(t *testing.T, s webhook.Store) {
	d := deliveryOf(owner(), "we_1", noon)
	add(t, s, d)
	first := tried(d, noon, false)
	record(t, s, first, 0)
	for name, late := range map[string]webhook.Delivery{
		"a failure":        tried(d, noon.Add(time.Second), true),
		"a success":        ended(tried(d, noon.Add(time.Second), false), webhook.Delivered),
		"a cancellation":   ended(d, webhook.Cancelled),
		"the last failure": ended(tried(d, noon.Add(time.Second), false), webhook.Exhausted),
		"a longer history": tried(tried(d, noon.Add(time.Second), false), noon, false),
	} {
		stored, err := s.Record(t.Context(), late, 0)
		if !errors.Is(err, webhook.ErrConflict) {
			t.Errorf("%s: %v", name, err)
		}
		same(t, name+" finds", stored, first)
	}
	same(t, "stored", load(t, s, d.Ref), first)
}

func recordRace(t *testing.T, s webhook.Store) {
	d := deliveryOf(owner(), "we_1", noon)
	add(t, s, d)
	var recorded atomic.Int32
	var wg sync.WaitGroup
	for i := range 10 {
		mine := tried(d, noon.Add(time.Duration(i)*time.Second), i%2 == 0)
		wg.Go(func() {
			switch _, err := s.Record(t.Context(), mine, 0); {
			case err == nil:
				recorded.Add(1)
			case !errors.Is(err, webhook.ErrConflict):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := load(t, s, d.Ref); recorded.Load() != 1 || len(got.Attempts) != 1 {
		t.Errorf("%d recorded, %d stored", recorded.Load(), len(got.Attempts))
	}
}

func recordTwice(t *testing.T, s webhook.Store) {
	o := owner()
	failed := tried(deliveryOf(o, "we_1", noon), noon, true)
	delivered := ended(tried(deliveryOf(o, "we_1", noon), noon, false), webhook.Delivered)
	cancelled := ended(deliveryOf(o, "we_1", noon), webhook.Cancelled)
	for _, d := range []webhook.Delivery{failed, delivered, cancelled} {
		fresh := d
		fresh.Status, fresh.Attempts, fresh.NextAttemptAt, fresh.Parked = webhook.Pending, nil, noon, false
		add(t, s, fresh)
		record(t, s, d, 0)
		record(t, s, d, 0)
		same(t, "stored", load(t, s, d.Ref), d)
	}
}

func recordAfterEnd(t *testing.T, s webhook.Store) {
	for _, end := range []webhook.DeliveryStatus{webhook.Delivered, webhook.Exhausted, webhook.Cancelled} {
		d := deliveryOf(owner(), "we_1", noon)
		add(t, s, d)
		final := ended(tried(d, noon, false), end)
		record(t, s, final, 0)
		for _, status := range []webhook.DeliveryStatus{webhook.Pending, webhook.Exhausted, webhook.Cancelled} {
			late := tried(final, noon.Add(time.Minute), false)
			late.Status = status
			if _, err := s.Record(t.Context(), late, 1); !errors.Is(err, webhook.ErrConflict) {
				t.Errorf("%s after %s: %v", status, end, err)
			}
		}
		success := ended(tried(final, noon.Add(time.Minute), false), webhook.Delivered)
		_, err := s.Record(t.Context(), success, 1)
		if end == webhook.Delivered {
			if !errors.Is(err, webhook.ErrConflict) {
				t.Errorf("a second success: %v", err)
			}
			success = final
		} else if err != nil {
			t.Errorf("a success after %s: %v", end, err)
		}
		same(t, "stored", load(t, s, d.Ref), success)
	}
}

func recordUnknown(t *testing.T, s webhook.Store) {
	d := deliveryOf(owner(), "we_1", noon)
	for _, r := range []webhook.Delivery{tried(d, noon, true), ended(d, webhook.Cancelled), ended(tried(d, noon, false), webhook.Delivered)} {
		if _, err := s.Record(t.Context(), r, 0); !errors.Is(err, webhook.ErrDeliveryNotFound) {
			t.Errorf("%s: %v", r.Status, err)
		}
	}
	if _, _, err := s.Load(t.Context(), d.Ref); !errors.Is(err, webhook.ErrDeliveryNotFound) {
		t.Errorf("a record made a delivery: %v", err)
	}
}

func logListed(t *testing.T, s webhook.Store) {
	o := owner()
	var ds []webhook.Delivery // oldest first
	for minute := range 6 {
		ds = append(ds, deliveryOf(o, "we_1", noon.Add(time.Duration(minute)*time.Minute)))
	}
	for _, i := range []int{4, 0, 2, 5, 1, 3} {
		add(t, s, ds[i])
	}
	add(t, s, deliveryOf(o, "we_2", noon), deliveryOf(owner(), "we_1", noon))
	ds[2] = tried(ds[2], noon, true)
	record(t, s, ds[2], 0)
	for i := range ds {
		ds[i].Event.Body = nil
	}
	slices.Reverse(ds)
	at := func(minute int) time.Time { return noon.Add(time.Duration(minute) * time.Minute) }
	for _, test := range []struct {
		name     string
		from, to time.Time
		limit    int
		want     []webhook.Delivery
	}{
		{"all", time.Time{}, time.Time{}, 100, ds},
		{"the newest two", time.Time{}, time.Time{}, 2, ds[:2]},
		{"from a time, which is included", at(4), time.Time{}, 100, ds[:2]},
		{"to a time, which is excluded", time.Time{}, at(2), 100, ds[4:]},
		{"between two", at(1), at(4), 100, ds[2:5]},
		{"between two, cut", at(1), at(4), 2, ds[2:4]},
		{"between no time", at(1), at(1), 100, []webhook.Delivery{}},
		{"backwards", at(4), at(1), 100, []webhook.Delivery{}},
	} {
		got, err := s.Deliveries(t.Context(), o, "we_1", test.from, test.to, test.limit)
		ok(t, err)
		same(t, test.name, got, test.want)
	}
}

func logPages(t *testing.T, s webhook.Store) {
	o := owner()
	const n = 30
	for i := range n {
		d := deliveryOf(o, "we_1", noon.Add(time.Duration(i)*time.Second))
		d.Event.Body = make([]byte, 64<<10) // so that one answer of DynamoDB, 1 MB, is not enough
		add(t, s, d)
	}
	got, err := s.Deliveries(t.Context(), o, "we_1", time.Time{}, time.Time{}, 100)
	ok(t, err)
	if len(got) != n || !slices.IsSortedFunc(got, func(a, b webhook.Delivery) int { return b.CreatedAt.Compare(a.CreatedAt) }) {
		t.Errorf("%d deliveries, want %d, newest first", len(got), n)
	}
}
