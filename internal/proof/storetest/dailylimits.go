package storetest

import (
	"context"
	"time"

	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
)

var dailyLimitPromises = []promise[*check]{
	{"a charge beyond the rest of the limit takes nothing", func(c *check) {
		c.refused("charging more than the limit", c.charge(101, 100), store.ErrDailyLimit)
		c.left(100)
		c.ok("charging", c.charge(60, 100))
		c.refused("charging too much", c.charge(41, 100), store.ErrDailyLimit)
		c.left(40)
		c.ok("charging the rest", c.charge(40, 100))
		c.left(0)
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
			all := c.day(100, 100)
			all.Merchant, all.Mode, all.At = row.merchant, row.mode, row.at
			c.refused(row.what, c.Charge(c.Context(), all), row.want)
			if row.want == nil {
				c.ok("refunding "+row.what, c.Refund(c.Context(), all))
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
	{"a charge counts under every limit or under none", func(c *check) {
		key := payment.DailyLimit{Key: "key_a", Amount: token.Units(50), Count: 3}
		all := payment.DailyLimit{Amount: token.Units(110)}
		charge := func(amount uint64, limits ...payment.DailyLimit) error {
			return c.Charge(c.Context(), c.under(amount, limits...))
		}
		c.ok("charging under two limits", charge(20, key, all))
		c.refused("more than the key has left", charge(31, key, all), store.ErrDailyLimit)
		c.ok("what the merchant has left but 10", charge(80, all))
		c.refused("the key has room, its merchant has none", charge(11, key, all), store.ErrDailyLimit)
		c.ok("the refused charges took nothing", charge(10, key, all))
		c.refused("the merchant's own day is over", charge(1, all), store.ErrDailyLimit)
		c.ok("refunding", c.Refund(c.Context(), c.under(20, key, all)))
		c.refused("the refund is known to both", charge(21, key, all), store.ErrDailyLimit)
		c.ok("and no more was given back", charge(20, key, all))
		c.ok("the third payment under a count of three", charge(1, key))
		c.refused("the fourth", charge(1, key), store.ErrDailyLimit)
	}},
	{"a count alone limits payments, however large", func(c *check) {
		twice := payment.DailyLimit{Key: "key_b", Count: 2}
		huge := c.under(0, twice)
		huge.Amount = token.MaxAmount()
		for range 2 {
			c.ok("charging", c.Charge(c.Context(), huge))
		}
		c.refused("a third payment", c.Charge(c.Context(), c.under(1, twice)), store.ErrDailyLimit)
		c.ok("refunding", c.Refund(c.Context(), huge))
		c.ok("the refunded one again", c.Charge(c.Context(), c.under(1, twice)))
		many := c.under(1, payment.DailyLimit{Key: "key_c", Count: 2})
		many.Count = 3
		c.refused("three at once", c.Charge(c.Context(), many), store.ErrDailyLimit)
	}},
	{"fifty racing charges under two limits fit to the unit", func(c *check) {
		limits := []payment.DailyLimit{{Key: "key_a", Amount: token.Units(1000), Count: 17}, {Amount: token.Units(170)}}
		won := c.wins(50, store.ErrDailyLimit, func(ctx context.Context, _ int) error { return c.Charge(ctx, c.under(10, limits...)) })
		if len(won) != 17 {
			c.Errorf("%d charges of 10 fit in 17", len(won))
		}
	}},
	{"amounts beyond 38 digits are refused, not mistaken", func(c *check) {
		most := token.MaxAmount()
		of := func(amount token.Amount) store.Charge {
			d := c.day(0, 0)
			d.Amount, d.Limits = amount, []payment.DailyLimit{{Amount: most}}
			return d
		}
		charge := func(amount token.Amount) error { return c.Charge(c.Context(), of(amount)) }
		c.refused("charging 2^256-1", charge(most), store.ErrDailyLimit)
		c.ok("refunding 2^256-1", c.Refund(c.Context(), of(most)))
		c.ok("charging under a limit of 2^256-1", charge(token.Units(7)))
		c.refused("charging 38 digits more", charge(most.Sub(token.Units(7))), store.ErrDailyLimit)
		c.left(93)
	}},
}

func (c *check) charge(amount, limit uint64) error {
	return c.Charge(c.Context(), c.day(amount, limit))
}

// day is a charge of one payment under the limit of the suite's merchant.
func (c *check) day(amount, limit uint64) store.Charge {
	return store.Charge{
		Merchant: c.merchant, Mode: "test", At: noon, Amount: token.Units(amount), Count: 1,
		Limits: []payment.DailyLimit{{Amount: token.Units(limit)}},
	}
}

// under is a charge of one payment under limits.
func (c *check) under(amount uint64, limits ...payment.DailyLimit) store.Charge {
	d := c.day(amount, 0)
	d.Limits = limits
	return d
}

func (c *check) refund(amount uint64) {
	c.Helper()
	c.ok("refunding", c.Refund(c.Context(), c.day(amount, 100)))
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
