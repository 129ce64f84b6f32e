package storetest

import (
	"context"
	"time"

	"remit/internal/store"
	"remit/internal/token"
)

var dailyLimitPromises = []promise[*check]{
	{"a day's first charge has the whole limit", func(c *check) {
		c.ok("charging the whole limit", c.charge(100, 100))
		c.left(0)
	}},
	{"a charge beyond the rest of the limit takes nothing", func(c *check) {
		c.refused("charging more than the limit", c.charge(101, 100), store.ErrDailyLimit)
		c.left(100)
		c.ok("charging", c.charge(60, 100))
		c.refused("charging too much", c.charge(41, 100), store.ErrDailyLimit)
		c.left(40)
		c.ok("charging the rest", c.charge(40, 100))
		c.left(0)
	}},
	{"racing charges never exceed the limit", func(c *check) {
		won := c.wins(20, store.ErrDailyLimit, func(context.Context, int) error { return c.charge(10, 100) })
		if len(won) != 10 {
			c.Errorf("%d charges of 10 fit in 100", len(won))
		}
	}},
	{"a refund gives back no more than was charged", func(c *check) {
		c.refund(50)
		c.left(100)
		c.ok("charging", c.charge(70, 100))
		c.refund(30)
		c.left(60)
		c.refund(41) // more than the 40 that are charged
		c.left(60)
		c.refund(40)
		c.left(100)
	}},
	{"days, merchants and modes have daily limits of their own", func(c *check) {
		all := token.Units(100)
		c.ok("charging", c.charge(100, 100))
		midnight := noon.Truncate(24 * time.Hour)
		east := time.FixedZone("east", 14*3600)
		for _, row := range []struct {
			what           string
			merchant, mode string
			at             time.Time
			want           error
		}{
			{"the same day, just begun", c.merchant, "test", midnight, store.ErrDailyLimit},
			{"the same day, nearly over", c.merchant, "test", midnight.Add(24*time.Hour - 1), store.ErrDailyLimit},
			{"the same day in another time zone", c.merchant, "test", noon.In(east), store.ErrDailyLimit},
			{"the day before", c.merchant, "test", midnight.Add(-1), nil},
			{"the day after", c.merchant, "test", midnight.Add(24 * time.Hour), nil},
			{"another merchant", c.merchant + "x", "test", noon, nil},
			{"another mode", c.merchant, "live", noon, nil},
		} {
			err := c.Charge(c.Context(), row.merchant, row.mode, all, all, row.at)
			c.refused(row.what, err, row.want)
			if row.want == nil {
				c.ok("refunding "+row.what, c.Refund(c.Context(), row.merchant, row.mode, all, row.at))
			}
		}
		c.left(0)
	}},
	{"a limit that changes during the day counts at once", func(c *check) {
		c.ok("charging", c.charge(60, 100))
		c.refused("charging with a lower limit", c.charge(1, 60), store.ErrDailyLimit)
		c.refused("charging with a limit below the sum charged", c.charge(1, 10), store.ErrDailyLimit)
		c.ok("charging with a higher limit", c.charge(140, 200))
		c.refused("charging with the old limit", c.charge(1, 100), store.ErrDailyLimit)
		c.refused("charging with the higher limit", c.charge(1, 200), store.ErrDailyLimit)
	}},
	{"amounts beyond 38 digits are refused, not mistaken", func(c *check) {
		most := token.MaxAmount()
		charge := func(amount token.Amount) error {
			return c.Charge(c.Context(), c.merchant, "test", amount, most, noon)
		}
		c.refused("charging 2^256-1", charge(most), store.ErrDailyLimit)
		c.ok("refunding 2^256-1", c.Refund(c.Context(), c.merchant, "test", most, noon))
		c.ok("charging under a limit of 2^256-1", charge(token.Units(7)))
		c.refused("charging 38 digits more", charge(most.Sub(token.Units(7))), store.ErrDailyLimit)
		c.left(93)
	}},
}

func (c *check) charge(amount, limit uint64) error {
	return c.Charge(c.Context(), c.merchant, "test", token.Units(amount), token.Units(limit), noon)
}

func (c *check) refund(amount uint64) {
	c.Helper()
	c.ok("refunding", c.Refund(c.Context(), c.merchant, "test", token.Units(amount), noon))
}

// left checks how much of a limit of 100 is left, by charging it.
func (c *check) left(want uint64) {
	c.Helper()
	c.refused("charging one unit too much", c.charge(want+1, 100), store.ErrDailyLimit)
	if want > 0 {
		c.ok("charging the rest of the day", c.charge(want, 100))
		c.refund(want)
	}
}
