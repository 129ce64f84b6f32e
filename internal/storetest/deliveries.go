package storetest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"remit/internal/webhook"
)

func (c hookCheck) add(ds ...webhook.Delivery) {
	c.Helper()
	c.ok("adding deliveries", c.AddDeliveries(c.Context(), ds))
}

// stored checks that each delivery is stored as it is in want.
func (c hookCheck) stored(want ...webhook.Delivery) {
	c.Helper()
	for _, d := range want {
		_, got, err := c.Load(c.Context(), d.Ref)
		c.ok("loading a delivery", err)
		c.same("stored delivery", d, got)
	}
}

// unknown checks that no delivery is stored under the reference.
func (c hookCheck) unknown(r webhook.Ref) {
	c.Helper()
	_, _, err := c.Load(c.Context(), r)
	c.refused("loading an unknown delivery", err, webhook.ErrDeliveryNotFound)
}

// record records d over the given number of attempts.
func (c hookCheck) record(d webhook.Delivery, attempts int) {
	c.Helper()
	stored, err := c.Record(c.Context(), d, attempts)
	c.ok("recording", err)
	c.same("answer to a record", d, stored)
	c.stored(d)
}

func deliveryAsStored(c hookCheck) {
	o := owner()
	full := deliveryOf(o, "we_1", noon)
	full = tried(tried(full, noon, false), noon.Add(time.Minute), true)
	bare := deliveryOf(o, "we_1", noon)
	bare.Event.At, bare.CreatedAt = time.Time{}, time.Time{} // of an event without a time
	for _, d := range []webhook.Delivery{full, ended(deliveryOf(o, "we_1", noon), webhook.Cancelled), bare} {
		c.add(d)
		c.stored(d)
	}
}

func deliveryEndpoint(c hookCheck) {
	e := c.endpoint(owner(), noon)
	d := deliveryOf(e.Owner, e.ID, noon)
	endpoint := func() webhook.Endpoint {
		c.Helper()
		got, _, err := c.Load(c.Context(), d.Ref)
		c.ok("loading a delivery", err)
		return got
	}
	c.unknown(d.Ref)
	c.add(d)
	if got := endpoint(); got.Status != webhook.Deleted {
		c.Errorf("a missing endpoint is loaded as %+v", got)
	}
	c.ok("adding an endpoint", c.AddEndpoint(c.Context(), e, 10))
	e.Status = webhook.Disabled
	e = c.saved(e)
	c.same("loaded endpoint", e, endpoint())
	e.Status = webhook.Deleted
	c.saved(e)
	if got := endpoint(); got.Status != webhook.Deleted {
		c.Errorf("a deleted endpoint is loaded as %+v", got)
	}
	other := d.Ref
	other.Merchant = owner().Merchant
	c.unknown(other)
}

func deliveryTwice(c hookCheck) {
	o := owner()
	a, b := deliveryOf(o, "we_1", noon), deliveryOf(o, "we_2", noon)
	c.add(a, b)
	triedA, endedB := tried(a, noon, false), ended(b, webhook.Cancelled)
	c.record(triedA, 0)
	c.record(endedB, 0)
	c.add(a, b)
	c.add(a)
	c.stored(triedA, endedB)
}

func deliveryMissing(c hookCheck) {
	o := owner()
	ds := make([]webhook.Delivery, webhook.EndpointLimit)
	for i := range ds {
		ds[i] = deliveryOf(o, fmt.Sprint("we_", i), noon)
	}
	c.add(ds[3], ds[7])
	c.add(ds...)
	c.stored(ds...)
}

func recordInOrder(c hookCheck) {
	d := deliveryOf(owner(), "we_1", noon)
	c.add(d)
	for i := range 9 {
		d = tried(d, noon.Add(time.Duration(i)*time.Hour), i%2 == 0)
		c.record(d, i)
	}
	d = ended(tried(d, noon.Add(time.Hour), false), webhook.Exhausted)
	c.record(d, 9)
}

func recordConflict(c hookCheck) {
	d := deliveryOf(owner(), "we_1", noon)
	c.add(d)
	first := tried(d, noon, false)
	c.record(first, 0)
	for name, late := range map[string]webhook.Delivery{
		"a failure":        tried(d, noon.Add(time.Second), true),
		"a success":        ended(tried(d, noon.Add(time.Second), false), webhook.Delivered),
		"a cancellation":   ended(d, webhook.Cancelled),
		"the last failure": ended(tried(d, noon.Add(time.Second), false), webhook.Exhausted),
		"a longer history": tried(tried(d, noon.Add(time.Second), false), noon, false),
	} {
		stored, err := c.Record(c.Context(), late, 0)
		c.refused(name, err, webhook.ErrConflict)
		c.same("answer to "+name, first, stored)
	}
	c.stored(first)
}

func recordRace(c hookCheck) {
	d := deliveryOf(owner(), "we_1", noon)
	c.add(d)
	mine := func(i int) webhook.Delivery { return tried(d, noon.Add(time.Duration(i)*time.Second), i%2 == 0) }
	won := c.winner(10, webhook.ErrConflict, func(ctx context.Context, i int) error {
		_, err := c.Record(ctx, mine(i), 0)
		return err
	})
	c.stored(mine(won))
}

func recordTwice(c hookCheck) {
	o := owner()
	failed := tried(deliveryOf(o, "we_1", noon), noon, true)
	delivered := ended(tried(deliveryOf(o, "we_1", noon), noon, false), webhook.Delivered)
	cancelled := ended(deliveryOf(o, "we_1", noon), webhook.Cancelled)
	for _, d := range []webhook.Delivery{failed, delivered, cancelled} {
		fresh := d
		fresh.Status, fresh.Attempts, fresh.NextAttemptAt, fresh.Parked = webhook.Pending, nil, noon, false
		c.add(fresh)
		c.record(d, 0)
		c.record(d, 0)
	}
}

func recordAfterEnd(c hookCheck) {
	for _, end := range []webhook.DeliveryStatus{webhook.Delivered, webhook.Exhausted, webhook.Cancelled} {
		d := deliveryOf(owner(), "we_1", noon)
		c.add(d)
		final := ended(tried(d, noon, false), end)
		c.record(final, 0)
		late := tried(final, noon.Add(time.Minute), false)
		for _, late.Status = range []webhook.DeliveryStatus{webhook.Pending, webhook.Exhausted, webhook.Cancelled} {
			_, err := c.Record(c.Context(), late, 1)
			c.refused(string(late.Status)+" after "+string(end), err, webhook.ErrConflict)
		}
		success := ended(late, webhook.Delivered)
		if end == webhook.Delivered {
			_, err := c.Record(c.Context(), success, 1)
			c.refused("a second success", err, webhook.ErrConflict)
			c.stored(final)
			continue
		}
		c.record(success, 1)
	}
}

func recordUnknown(c hookCheck) {
	d := deliveryOf(owner(), "we_1", noon)
	for _, r := range []webhook.Delivery{tried(d, noon, true), ended(d, webhook.Cancelled), ended(tried(d, noon, false), webhook.Delivered)} {
		_, err := c.Record(c.Context(), r, 0)
		c.refused("recording "+string(r.Status), err, webhook.ErrDeliveryNotFound)
	}
	c.unknown(d.Ref)
}

func logListed(c hookCheck) {
	o := owner()
	var ds []webhook.Delivery // oldest first
	for minute := range 6 {
		ds = append(ds, deliveryOf(o, "we_1", noon.Add(time.Duration(minute)*time.Minute)))
	}
	for _, i := range []int{4, 0, 2, 5, 1, 3} {
		c.add(ds[i])
	}
	c.add(deliveryOf(o, "we_2", noon), deliveryOf(owner(), "we_1", noon))
	ds[2] = tried(ds[2], noon, true)
	c.record(ds[2], 0)
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
		got, err := c.Deliveries(c.Context(), o, "we_1", test.from, test.to, test.limit)
		c.ok(test.name, err)
		c.same(test.name, test.want, got)
	}
}

func logPages(c hookCheck) {
	o := owner()
	const n = 30
	for i := range n {
		d := deliveryOf(o, "we_1", noon.Add(time.Duration(i)*time.Second))
		d.Event.Body = make([]byte, 64<<10) // so that one answer of DynamoDB, 1 MB, is not enough
		c.add(d)
	}
	got, err := c.Deliveries(c.Context(), o, "we_1", time.Time{}, time.Time{}, 100)
	c.ok("listing deliveries", err)
	if len(got) != n || !slices.IsSortedFunc(got, func(a, b webhook.Delivery) int { return b.CreatedAt.Compare(a.CreatedAt) }) {
		c.Errorf("%d deliveries, want %d, newest first", len(got), n)
	}
}
