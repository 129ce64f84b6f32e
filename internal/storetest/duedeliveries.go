package storetest

import (
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"remit/internal/webhook"
)

// due checks that exactly these deliveries of o are due at the time at, in
// order. Due may lag.
func (c hookCheck) due(o webhook.Owner, at time.Time, want ...webhook.Due) {
	c.Helper()
	c.eventually("due deliveries", func() string {
		all, err := c.Due(c.Context(), at, 10_000)
		c.ok("reading due deliveries", err)
		if !slices.IsSortedFunc(all, func(a, b webhook.Due) int { return a.At.Compare(b.At) }) {
			c.Errorf("due deliveries are not sorted by time: %v", all)
		}
		mine := slices.DeleteFunc(all, func(d webhook.Due) bool { return d.Owner != o })
		return cmp.Diff(want, mine, cmpopts.EquateEmpty())
	})
}

func dueOf(d webhook.Delivery) webhook.Due { return webhook.Due{Ref: d.Ref, At: d.NextAttemptAt} }

func dueFromItsTime(c hookCheck) {
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
}

func dueUntil(c hookCheck) {
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
}

func unparkOther(c hookCheck) {
	d := tried(deliveryOf(owner(), "we_1", noon), noon, true)
	c.ok("unparking", c.Unpark(c.Context(), dueOf(d))) // there is no such delivery
	c.add(d)
	other := dueOf(d)
	other.At = other.At.Add(time.Second)
	c.ok("unparking", c.Unpark(c.Context(), other))
	c.stored(d)
}
