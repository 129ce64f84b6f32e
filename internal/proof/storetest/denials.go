package storetest

import (
	"time"

	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/store"
)

var denialPromises = []promise[*check]{
	{"a denial is listed until it is removed, and replaced by another", func(c *check) {
		to := c.walletID().Address // drawn at random: the list is of all checks
		ours := func() (found []store.Denial) {
			c.Helper()
			for _, d := range c.rules().Denied {
				if d.To == to {
					found = append(found, d)
				}
			}
			return found
		}
		c.same("before", []store.Denial(nil), ours())
		for i, reason := range []string{"court order", ""} {
			d := store.Denial{To: to, Reason: reason, At: noon.Add(time.Duration(i) * time.Hour)}
			c.ok("denying", c.Deny(c.Context(), d))
			c.same("denied", []store.Denial{d}, ours())
		}
		for range 2 {
			c.ok("allowing", c.Allow(c.Context(), to))
			c.same("allowed", []store.Denial(nil), ours())
		}
		c.ok("denying", c.Deny(c.Context(), store.Denial{To: token.Address{0xff}, At: noon}))
		c.ok("allowing", c.Allow(c.Context(), token.Address{0xff}))
		for _, nobody := range []token.Address{{}, {19: 1}} {
			if c.Deny(c.Context(), store.Denial{To: nobody, At: noon}) == nil || c.Allow(c.Context(), nobody) == nil {
				c.Errorf("%s was denied or allowed: settings, or the coin, may be stored under it", nobody)
			}
		}
	}},
}
