package storetest

import (
	stdcmp "cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
)

var listPromises = []promise[*check]{
	{"a prepared payment is not listed", func(c *check) {
		c.lists(store.Filter{}, 10)
		p := c.created(c.walletID())
		c.lists(store.Filter{}, 10)
		p = c.committed(p, 0)
		c.lists(store.Filter{}, 10, p)
		c.lists(store.Filter{}, 10, c.confirmed(c.bumped(p, 30)))
	}},
	{"the books have every payment, every no-op, and what cannot be read", func(c *check) {
		id := c.walletID()
		ended, prepared := c.confirmed(c.bumped(c.committed(c.created(id), 4), 30)), c.unstored()
		prepared = c.create(prepared)
		spoiled := c.committed(c.created(id), 5)
		noop := wallet.PendingTx{ID: id, Nonce: 6, Hashes: []chain.Hash{{6, 6, byte(len(c.merchant))}}, Raw: []byte{6},
			Fees: ended.Tx.Fees, At: noon, Since: noon, Gas: token.Units(1)}
		noop = c.put(noop)
		c.Spoil(spoiled.ID)
		unreadable := 0
		payments, noops := map[payment.ID]payment.Payment{}, map[chain.Hash]int{}
		for entry, err := range c.Entries(c.Context()) {
			switch {
			case errors.Is(err, store.ErrUnreadable):
				unreadable++
			case err != nil:
				c.Fatal(err)
			case entry.Noop.IsZero():
				payments[entry.Payment.ID] = entry.Payment
			default:
				noops[entry.Noop]++
			}
		}
		c.samePayment("the entry", ended, payments[ended.ID])
		c.samePayment("the entry", prepared, payments[prepared.ID])
		if _, readable := payments[spoiled.ID]; readable || unreadable == 0 || noops[noop.Hash()] != 1 || noops[ended.TxHash] != 0 {
			c.Errorf("spoiled %v, %d unreadable, no-ops %v", readable, unreadable, noops)
		}
		for _, err := range c.Entries(c.Context()) {
			if err != nil && !errors.Is(err, store.ErrUnreadable) {
				c.Error(err)
			}
			break // it must not go on
		}
		gone, stop := context.WithCancel(c.Context())
		stop()
		for _, err := range c.Entries(gone) {
			if err == nil {
				c.Error("an entry after the caller has left")
			}
		}
	}},
	{"merchants and modes have lists of their own", func(c *check) {
		mine, live, other := c.created(c.walletID()), c.unstored(), c.unstored()
		mine = c.committed(mine, 0)
		live.Mode = "live"
		c.committed(c.create(live), 0)
		other.Merchant += "x"
		c.committed(c.create(other), 0)
		c.lists(store.Filter{}, 10, mine)
	}},
	{"payments are listed newest first, ties by descending ID, of a status", func(c *check) {
		all := c.history(6)
		all[1] = c.confirmed(all[1])
		all[4] = c.failing(all[4], payment.TransferMissing, chain.Receipt{Tx: all[4].LastAttempt().Hash, Succeeded: true, Block: 21})
		c.ok("finishing", c.Finish(c.Context(), all[4]))
		c.lists(store.Filter{Status: payment.StatusConfirmed}, 10, all[1])
		c.lists(store.Filter{Status: payment.StatusFailed}, 10, all[4])
		c.lists(store.Filter{Status: payment.StatusPending}, 10, all[0], all[2], all[3], all[5])
		c.lists(store.Filter{Status: "unheard of"}, 10)
		c.lists(store.Filter{}, 10, all...)
	}},
	{"a list is bounded by times, exclusively", func(c *check) {
		all := c.history(8) // two each at 3, 2, 1 and 0 seconds after noon
		at := func(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }
		for _, n := range []int{1, 2, 100} {
			c.lists(store.Filter{After: at(0)}, n, all[:6]...)
			c.lists(store.Filter{After: at(0).Add(-1)}, n, all...)
			c.lists(store.Filter{Before: at(3)}, n, all[2:]...)
			c.lists(store.Filter{Before: at(3).Add(1)}, n, all...)
			c.lists(store.Filter{After: at(0), Before: at(3)}, n, all[2:6]...)
			c.lists(store.Filter{After: at(2), Before: at(1)}, n)
			c.lists(store.Filter{After: at(1), Before: at(1)}, n)
			c.lists(store.Filter{After: at(3)}, n)
			c.lists(store.Filter{Before: at(0)}, n)
		}
	}},
	{"pages follow each other while payments arrive", func(c *check) {
		all := c.history(10)
		var got []payment.Payment
		f := store.Filter{Merchant: c.merchant, Mode: "test", Limit: 3}
		late := 0
		c.pages(f, func(page []payment.Payment) {
			got = append(got, page...)
			late++
			c.committed(c.createdAt(c.walletID(), noon.Add(time.Duration(late)*time.Minute)), 0)
		})
		c.same("pages while payments arrive", idsOf(all), idsOf(got))
	}},
	{"pages of one status follow each other", func(c *check) {
		all := c.history(15)
		var want []payment.Payment
		for i, p := range all {
			if i%3 != 0 {
				want = append(want, p)
				continue
			}
			c.confirmed(p)
		}
		for _, n := range []int{1, 2, 3, 7, 100} {
			c.lists(store.Filter{Status: payment.StatusPending}, n, want...)
		}
		c.lists(store.Filter{Status: payment.StatusPending, After: noon, Before: noon.Add(6 * time.Second)}, 2,
			slices.DeleteFunc(slices.Clone(want), func(p payment.Payment) bool {
				return !p.CreatedAt.After(noon) || !p.CreatedAt.Before(noon.Add(6*time.Second))
			})...)
	}},
	{"the payments of a reference are listed, until they lose it", func(c *check) {
		all := c.history(15)
		other := c.unstored()
		other.Reference += "x"
		other = c.committed(c.create(other), 0)
		c.lists(store.Filter{Reference: other.Reference}, 10, other)
		reference := all[0].Reference
		all[3], all[9] = c.confirmed(all[3]), c.confirmed(all[9])
		for _, n := range []int{1, 2, 7, 100} {
			c.lists(store.Filter{Reference: reference}, n, all...)
			c.lists(store.Filter{Reference: reference, Status: payment.StatusConfirmed}, n, all[3], all[9])
			c.lists(store.Filter{Reference: reference, Status: payment.StatusPending}, n,
				slices.Concat(all[:3], all[4:9], all[10:])...)
			c.lists(store.Filter{Reference: reference, After: all[6].CreatedAt, Before: all[0].CreatedAt}, n, slices.DeleteFunc(
				slices.Clone(all), func(p payment.Payment) bool {
					return !p.CreatedAt.After(all[6].CreatedAt) || !p.CreatedAt.Before(all[0].CreatedAt)
				})...)
		}
		c.ok("redacting", c.Redact(c.Context(), must.Get(all[3].Redacted())(c)))
		c.lists(store.Filter{Reference: reference}, 100, slices.Delete(all, 3, 4)...)
		c.lists(store.Filter{Reference: "inv-2041"}, 100)
	}},
	{"the payments of an asset are listed", func(c *check) {
		all := c.history(15)
		id := c.walletID()
		id.ChainID++
		there := c.committed(c.createdAt(id, noon), 0)
		confirmed := c.confirmed(all[4])
		all[4] = confirmed
		other := there.Coin()
		other.Contract[0]++
		for _, n := range []int{1, 2, 7, 100} {
			c.lists(store.Filter{Asset: all[0].Coin()}, n, all...)
			c.lists(store.Filter{Asset: there.Coin()}, n, there)
			c.lists(store.Filter{Asset: all[0].Coin(), Status: payment.StatusConfirmed}, n, confirmed)
			c.lists(store.Filter{Asset: there.Coin(), Status: payment.StatusConfirmed}, n)
			c.lists(store.Filter{Asset: there.Coin(), Reference: there.Reference}, n, there)
			c.lists(store.Filter{Asset: other}, n)
		}
	}},
	{"an unreadable payment is left out", func(c *check) {
		all := c.history(6)
		c.Spoil(all[2].ID)
		for _, n := range []int{1, 2, 3, 100} {
			c.lists(store.Filter{}, n, slices.Delete(slices.Clone(all), 2, 3)...)
		}
	}},
	{"a page holds at most a hundred", func(c *check) {
		c.history(103)
		for _, limit := range []int{0, -1, 100, 1000} {
			page, next, err := c.List(c.Context(), store.Filter{Merchant: c.merchant, Mode: "test", Limit: limit})
			c.ok("listing", err)
			if len(page) != 100 || next.ID != page[99].ID {
				c.Errorf("limit %d: %d payments, next %v", limit, len(page), next)
			}
		}
	}},
}

// lists checks the whole list for a filter, read in pages of at most n.
func (c *check) lists(f store.Filter, n int, want ...payment.Payment) {
	c.Helper()
	f.Merchant, f.Mode, f.Limit = c.merchant, "test", n
	c.eventually(fmt.Sprintf("list of %+v", f), func() string {
		var got []payment.Payment
		c.pages(f, func(page []payment.Payment) { got = append(got, page...) })
		diff := cmp.Diff(idsOf(want), idsOf(got))
		if diff == "" {
			for i, p := range want {
				c.samePayment("listed payment", p, got[i])
			}
		}
		return diff
	})
}

// pages passes every page to see and checks its size. A page may be short, but not for ever.
func (c *check) pages(f store.Filter, see func([]payment.Payment)) {
	c.Helper()
	for range 200 {
		page, next, err := c.List(c.Context(), f)
		c.ok("listing", err)
		if see(page); len(page) > f.Limit {
			c.Fatalf("a page of %d holds %d", f.Limit, len(page))
		}
		if f.From = next; next.IsZero() {
			return
		}
	}
	c.Fatalf("the list does not end: %+v", f)
}

func idsOf(list []payment.Payment) []payment.ID {
	ids := []payment.ID{}
	for _, p := range list {
		ids = append(ids, p.ID)
	}
	return ids
}

// history stores n committed payments a second apart, two in each second, and
// returns them newest first. They are committed in no particular order.
func (c *check) history(n int) []payment.Payment {
	c.Helper()
	id := c.walletID()
	all := make([]payment.Payment, n)
	for i := range all {
		all[i] = c.createdAt(id, noon.Add(time.Duration(i/2)*time.Second))
	}
	for i := range all {
		j := (i*7 + 3) % n
		if n%7 == 0 {
			j = i
		}
		all[j] = c.committed(all[j], uint64(j))
	}
	slices.SortFunc(all, func(a, b payment.Payment) int {
		return stdcmp.Or(b.CreatedAt.Compare(a.CreatedAt), stdcmp.Compare(b.ID, a.ID))
	})
	return all
}

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
		for _, row := range []struct {
			key    string
			at     time.Time
			amount uint64
			count  uint64
		}{{"key_a", noon.Truncate(24 * time.Hour), 31, 3}, {"", noon, 110, 0}, {"key_x", noon, 0, 0},
			{"key_a", noon.Add(-24 * time.Hour), 0, 0}} {
			amount, count, err := c.Charged(c.Context(), c.merchant, "test", row.key, row.at)
			c.ok("reading the day", err)
			if amount != token.Units(row.amount) || count != row.count {
				c.Errorf("%s was charged %v and %d on %v", row.key, amount, count, row.at)
			}
		}
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
