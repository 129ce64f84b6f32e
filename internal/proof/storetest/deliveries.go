package storetest

import (
	"context"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/proof/must"
)

func (c hookCheck) add(ds ...webhook.Delivery) {
	c.Helper()
	for _, d := range ds {
		c.ok("adding a delivery", c.AddDelivery(c.Context(), d))
	}
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
	stored := must.Get(c.Record(c.Context(), d, attempts))(c)
	c.same("answer to a record", d, stored)
	c.stored(d)
}

var deliveryPromises = []promise[hookCheck]{
	{"a delivery is read as it was stored, to the byte", func(c hookCheck) {
		o := owner()
		full := deliveryOf(o, "we_1", noon)
		full = tried(tried(full, noon, false), noon.Add(time.Minute), true)
		bare := deliveryOf(o, "we_1", noon)
		bare.Event.At, bare.CreatedAt = time.Time{}, time.Time{} // of an event without a time
		for _, d := range []webhook.Delivery{full, ended(deliveryOf(o, "we_1", noon), webhook.Cancelled), bare} {
			c.add(d)
			c.stored(d)
		}
	}},
	{"a delivery is loaded with its endpoint as it is now", func(c hookCheck) {
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
	}},
	{"attempts are recorded in order", func(c hookCheck) {
		d := deliveryOf(owner(), "we_1", noon)
		c.add(d)
		for i := range 9 {
			d = tried(d, noon.Add(time.Duration(i)*time.Hour), i%2 == 0)
			c.record(d, i)
		}
		d = ended(tried(d, noon.Add(time.Hour), false), webhook.Exhausted)
		c.record(d, 9)
	}},
	{"of many racing records one gets in", func(c hookCheck) {
		d := deliveryOf(owner(), "we_1", noon)
		c.add(d)
		mine := func(i int) webhook.Delivery { return tried(d, noon.Add(time.Duration(i)*time.Second), i%2 == 0) }
		won := c.winner(10, webhook.ErrConflict, func(ctx context.Context, i int) error {
			return must.Err(c.Record(ctx, mine(i), 0))
		})
		c.stored(mine(won))
	}},
	{"a success may follow the end of a delivery, nothing else may", func(c hookCheck) {
		for _, end := range []webhook.DeliveryStatus{webhook.Delivered, webhook.Exhausted, webhook.Cancelled} {
			d := deliveryOf(owner(), "we_1", noon)
			c.add(d)
			final := ended(tried(d, noon, false), end)
			c.record(final, 0)
			late := tried(final, noon.Add(time.Minute), false)
			for _, late.Status = range []webhook.DeliveryStatus{webhook.Pending, webhook.Exhausted, webhook.Cancelled} {
				c.refused(string(late.Status)+" after "+string(end), must.Err(c.Record(c.Context(), late, 1)), webhook.ErrConflict)
			}
			success := ended(late, webhook.Delivered)
			if end == webhook.Delivered {
				c.refused("a second success", must.Err(c.Record(c.Context(), success, 1)), webhook.ErrConflict)
				c.stored(final)
				continue
			}
			c.record(success, 1)
		}
	}},
	{"a delivery is stored whole with its first result, over another's it is not", func(c hookCheck) {
		for _, park := range []bool{true, false} {
			d := deliveryOf(owner(), "we_1", noon)
			for _, first := range []webhook.Delivery{tried(d, noon, park), ended(d, webhook.Cancelled),
				ended(tried(d, noon, false), webhook.Delivered)} {
				first.Delivery = deliveryOf(owner(), "we_1", noon).Delivery
				c.record(first, 0)
				c.record(first, 0)
				_, err := c.Record(c.Context(), tried(first, noon.Add(time.Second), park), 0)
				c.refused("another first result after "+string(first.Status), err, webhook.ErrConflict)
				c.add(d)
				c.stored(first, d)
			}
		}
	}},
	{"a log is listed newest first, between two times, without bodies", func(c hookCheck) {
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
			got := must.Get(c.Deliveries(c.Context(), o, "we_1", test.from, test.to, test.limit))(c)
			c.same(test.name, test.want, got)
		}
	}},
}

// due checks that exactly these deliveries of o are due at the time at, in order. Due may lag.
func (c hookCheck) due(o webhook.Owner, at time.Time, want ...webhook.Due) {
	c.Helper()
	c.eventually("due deliveries", func() string {
		all := must.Get(c.Due(c.Context(), at, 10_000))(c)
		if !slices.IsSortedFunc(all, func(a, b webhook.Due) int { return a.At.Compare(b.At) }) {
			c.Errorf("due deliveries are not sorted by time: %v", all)
		}
		mine := slices.DeleteFunc(all, func(d webhook.Due) bool { return d.Owner != o })
		return cmp.Diff(want, mine, cmpopts.EquateEmpty())
	})
}

func dueOf(d webhook.Delivery) webhook.Due { return webhook.Due{Ref: d.Ref, At: d.NextAttemptAt} }

var duePromises = []promise[hookCheck]{
	{"a parked delivery is due from its time on", func(c hookCheck) {
		o := owner()
		var ds []webhook.Delivery
		for minute := range 5 {
			ds = append(ds, tried(deliveryOf(o, "we_1", noon), noon.Add(time.Duration(minute)*time.Minute), true))
			c.add(ds[minute])
		}
		c.add(tried(deliveryOf(o, "we_1", noon), noon, false))
		c.due(o, ds[2].NextAttemptAt, dueOf(ds[0]), dueOf(ds[1]), dueOf(ds[2]))
		c.due(o, ds[0].NextAttemptAt.Add(-time.Millisecond))
		for most := range 2 {
			if few, err := c.Due(c.Context(), ds[4].NextAttemptAt, most); err != nil || len(few) != most {
				c.Errorf("at most %d: %v, %v", most, few, err)
			}
		}
	}},
	{"of more than may be returned, those are due that wait longest and shortest", func(c hookCheck) {
		long := noon.AddDate(-20, 0, 0) // before any other promise's
		var want []webhook.Due
		for minute := range 9 {
			d := tried(deliveryOf(owner(), "we_1", long), long.Add(time.Duration(minute)*time.Minute), true)
			d.Delivery = d.Delivery[:len(d.Delivery)-1] + "0" // a store may spread them by the ends of their ids
			c.add(d)
			if minute < 2 || minute > 7 {
				want = append(want, dueOf(d))
			}
		}
		c.eventually("due deliveries", func() string {
			few := must.Get(c.Due(c.Context(), long.AddDate(1, 0, 0), 3))(c)
			return cmp.Diff(want, few)
		})
	}},
	{"a delivery is due until it is unparked or recorded", func(c hookCheck) {
		o := owner()
		unparked := tried(deliveryOf(o, "we_1", noon), noon, true)
		delivered := tried(deliveryOf(o, "we_1", noon), noon.Add(time.Second), true)
		later := tried(deliveryOf(o, "we_1", noon), noon.Add(2*time.Second), true)
		c.add(unparked)
		c.add(delivered)
		c.add(later)
		at := later.NextAttemptAt
		c.due(o, at, dueOf(unparked), dueOf(delivered), dueOf(later))

		c.ok("unparking", c.Unpark(c.Context(), dueOf(unparked)))
		c.ok("unparking", c.Unpark(c.Context(), dueOf(unparked)))
		c.record(ended(tried(delivered, noon, false), webhook.Delivered), 1)
		moved := tried(later, noon.Add(time.Hour), true)
		c.record(moved, 1)
		c.due(o, at)
		c.due(o, moved.NextAttemptAt, dueOf(moved))

		unparked.Parked = false
		c.stored(unparked)
	}},
}
