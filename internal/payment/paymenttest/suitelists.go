package paymenttest

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/go-cmp/cmp"

	"remit/internal/chain"
	"remit/internal/payment"
	"remit/internal/token"
)

var allowancePromises = []promise{
	{"a day's first charge has the whole limit", firstCharge},
	{"a charge beyond what is left takes nothing", chargeRefused},
	{"racing charges never exceed the limit", racingCharges},
	{"a refund gives back no more than was charged", refunded},
	{"days, merchants and modes have allowances of their own", allowancesApart},
	{"a limit that changes during the day counts at once", limitChanged},
	{"amounts beyond 38 digits are refused, not mistaken", allowanceHuge},
}

var listPromises = []promise{
	{"payments are listed newest first, ties by descending ID", listOrder},
	{"an unsealed payment is not listed", listUnsealed},
	{"merchants and modes have lists of their own", listsApart},
	{"a list is filtered by status", listStatus},
	{"a list is bounded by times, exclusively", listTimes},
	{"pages follow each other while payments arrive", listPages},
	{"pages of one status follow each other", listStatusPages},
	{"an unreadable payment is left out", listUnreadable},
	{"a page holds at most a hundred", listLimit},
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
	c.refused("charging more than is left", c.charge(want+1, 100), payment.ErrAllowance)
	if want > 0 {
		c.ok("charging what is left", c.charge(want, 100))
		c.refund(want)
	}
}

func firstCharge(c *check) {
	c.ok("charging the whole limit", c.charge(100, 100))
	c.left(0)
}

func chargeRefused(c *check) {
	c.refused("charging more than the limit", c.charge(101, 100), payment.ErrAllowance)
	c.left(100)
	c.ok("charging", c.charge(60, 100))
	c.refused("charging too much", c.charge(41, 100), payment.ErrAllowance)
	c.left(40)
	c.ok("charging the rest", c.charge(40, 100))
	c.left(0)
}

func racingCharges(c *check) {
	var taken atomic.Int32
	c.race(20, func(context.Context, int) {
		switch err := c.charge(10, 100); {
		case err == nil:
			taken.Add(1)
		case !isAny(err, payment.ErrAllowance):
			c.Errorf("charging: %v", err)
		}
	})
	if n := taken.Load(); n != 10 {
		c.Errorf("%d charges of 10 fit in 100", n)
	}
}

func refunded(c *check) {
	c.refund(50)
	c.left(100)
	c.ok("charging", c.charge(70, 100))
	c.refund(30)
	c.left(60)
	c.refund(41) // more than the 40 that are charged
	c.left(60)
	c.refund(40)
	c.left(100)
}

func allowancesApart(c *check) {
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
		{"the same day, just begun", c.merchant, "test", midnight, payment.ErrAllowance},
		{"the same day, nearly over", c.merchant, "test", midnight.Add(24*time.Hour - 1), payment.ErrAllowance},
		{"the same day elsewhere", c.merchant, "test", noon.In(east), payment.ErrAllowance},
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
}

func limitChanged(c *check) {
	c.ok("charging", c.charge(60, 100))
	c.refused("charging with a lower limit", c.charge(1, 60), payment.ErrAllowance)
	c.refused("charging with a limit below what was spent", c.charge(1, 10), payment.ErrAllowance)
	c.ok("charging with a higher limit", c.charge(140, 200))
	c.refused("charging with the old limit", c.charge(1, 100), payment.ErrAllowance)
	c.refused("charging with the higher limit", c.charge(1, 200), payment.ErrAllowance)
}

func allowanceHuge(c *check) {
	most := token.MaxAmount()
	charge := func(amount token.Amount) error {
		return c.Charge(c.Context(), c.merchant, "test", amount, most, noon)
	}
	c.refused("charging 2^256-1", charge(most), payment.ErrAllowance)
	c.ok("refunding 2^256-1", c.Refund(c.Context(), c.merchant, "test", most, noon))
	c.ok("charging under a limit of 2^256-1", charge(token.Units(7)))
	c.refused("charging 38 digits more", charge(most.Sub(token.Units(7))), payment.ErrAllowance)
	c.left(93)
}

// lists checks the whole list for a filter, page by page, each of at most n.
// A list may lag, so it is read until it is right or patience ends.
func (c *check) lists(f payment.Filter, n int, want ...payment.Payment) {
	c.Helper()
	f.Merchant, f.Mode, f.Limit = c.merchant, "test", n
	var diff string
	for range 50 {
		var got []payment.Payment
		c.pages(f, func(page []payment.Payment) { got = append(got, page...) })
		if diff = cmp.Diff(idsOf(want), idsOf(got)); diff == "" {
			c.same("listed payments", want, got)
			return
		}
		lag(c.Context())
	}
	c.Errorf("list of %+v (-want +got):\n%s", f, diff)
}

// pages gives every page to see and checks their size.
func (c *check) pages(f payment.Filter, see func([]payment.Payment)) {
	c.Helper()
	for more := true; more; {
		var page []payment.Payment
		var err error
		page, more, err = c.List(c.Context(), f)
		c.ok("listing", err)
		see(page)
		switch {
		case len(page) > f.Limit || (more && len(page) != f.Limit):
			c.Fatalf("a page of %d holds %d, more = %v", f.Limit, len(page), more)
		case more:
			last := page[len(page)-1]
			f.From = payment.Position{CreatedAt: last.CreatedAt, ID: last.ID}
		}
	}
}

func idsOf(list []payment.Payment) []payment.ID {
	ids := []payment.ID{}
	for _, p := range list {
		ids = append(ids, p.ID)
	}
	return ids
}

// lag gives an index a moment to follow its table.
func lag(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	<-ctx.Done()
}

// history stores n sealed payments a second apart, two in each second, and
// returns them newest first. They are sealed in no particular order.
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
		all[j] = c.sealed(all[j], uint64(j))
	}
	slices.SortFunc(all, func(a, b payment.Payment) int {
		if d := b.CreatedAt.Compare(a.CreatedAt); d != 0 {
			return d
		}
		return strings.Compare(string(b.ID), string(a.ID))
	})
	return all
}

func listOrder(c *check) {
	all := c.history(9)
	c.lists(payment.Filter{}, 100, all...)
	c.lists(payment.Filter{}, 9, all...)
	c.lists(payment.Filter{}, 1, all...)
	c.lists(payment.Filter{}, 4, all...)
}

func listUnsealed(c *check) {
	c.lists(payment.Filter{}, 10)
	p := c.created(c.walletID())
	c.lists(payment.Filter{}, 10)
	p = c.sealed(p, 0)
	c.lists(payment.Filter{}, 10, p)
	p = c.bumped(p, 30)
	c.ok("adding an attempt", c.AddAttempt(c.Context(), p))
	p = c.confirming(p)
	c.ok("finishing", c.Finish(c.Context(), p))
	c.lists(payment.Filter{}, 10, p)
}

func listsApart(c *check) {
	mine := c.sealed(c.created(c.walletID()), 0)
	live := c.draft(c.walletID(), noon, token.Units(1))
	live.Mode = "live"
	c.create(live)
	c.sealed(live, 0)
	other := c.draft(c.walletID(), noon, token.Units(1))
	other.Merchant += "x"
	c.create(other)
	c.sealed(other, 0)
	c.lists(payment.Filter{}, 10, mine)
}

func listStatus(c *check) {
	all := c.history(6)
	all[1] = c.confirming(all[1])
	c.ok("finishing", c.Finish(c.Context(), all[1]))
	var err error
	all[4], err = all[4].Fail(payment.TransferMissing, receiptOf(all[4]), noon.Add(time.Hour))
	c.ok("failing", err)
	c.ok("finishing", c.Finish(c.Context(), all[4]))
	c.lists(payment.Filter{Status: payment.StatusConfirmed}, 10, all[1])
	c.lists(payment.Filter{Status: payment.StatusFailed}, 10, all[4])
	c.lists(payment.Filter{Status: payment.StatusPending}, 10, all[0], all[2], all[3], all[5])
	c.lists(payment.Filter{Status: "unheard of"}, 10)
	c.lists(payment.Filter{}, 10, all...)
}

func listTimes(c *check) {
	all := c.history(8) // two each at 3, 2, 1 and 0 seconds after noon
	at := func(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }
	for _, n := range []int{1, 2, 100} {
		c.lists(payment.Filter{After: at(0)}, n, all[:6]...)
		c.lists(payment.Filter{After: at(0).Add(-1)}, n, all...)
		c.lists(payment.Filter{Before: at(3)}, n, all[2:]...)
		c.lists(payment.Filter{Before: at(3).Add(1)}, n, all...)
		c.lists(payment.Filter{After: at(0), Before: at(3)}, n, all[2:6]...)
		c.lists(payment.Filter{After: at(2), Before: at(1)}, n)
		c.lists(payment.Filter{After: at(1), Before: at(1)}, n)
		c.lists(payment.Filter{After: at(3)}, n)
		c.lists(payment.Filter{Before: at(0)}, n)
	}
}

func listPages(c *check) {
	all := c.history(10)
	c.lists(payment.Filter{}, 100, all...)
	var got []payment.Payment
	f := payment.Filter{Merchant: c.merchant, Mode: "test", Limit: 3}
	late := 0
	c.pages(f, func(page []payment.Payment) {
		got = append(got, page...)
		late++
		c.sealed(c.createdAt(c.walletID(), noon.Add(time.Duration(late)*time.Minute)), 0)
	})
	c.same("pages while payments arrive", idsOf(all), idsOf(got))
}

func listStatusPages(c *check) {
	all := c.history(15)
	var want []payment.Payment
	for i, p := range all {
		if i%3 != 0 {
			want = append(want, p)
			continue
		}
		c.ok("finishing", c.Finish(c.Context(), c.confirming(p)))
	}
	for _, n := range []int{1, 2, 3, 7, 100} {
		c.lists(payment.Filter{Status: payment.StatusPending}, n, want...)
	}
	c.lists(payment.Filter{Status: payment.StatusPending, After: noon, Before: noon.Add(6 * time.Second)}, 2,
		slices.DeleteFunc(slices.Clone(want), func(p payment.Payment) bool {
			return !p.CreatedAt.After(noon) || !p.CreatedAt.Before(noon.Add(6*time.Second))
		})...)
}

func listUnreadable(c *check) {
	all := c.history(6)
	c.Spoil(all[2].ID)
	for _, n := range []int{1, 2, 3, 100} {
		c.lists(payment.Filter{}, n, slices.Delete(slices.Clone(all), 2, 3)...)
	}
}

func listLimit(c *check) {
	c.history(103)
	for _, limit := range []int{0, -1, 100, 1000} {
		page, more, err := c.List(c.Context(), payment.Filter{Merchant: c.merchant, Mode: "test", Limit: limit})
		c.ok("listing", err)
		if len(page) != 100 || !more {
			c.Errorf("limit %d: %d payments, more = %v", limit, len(page), more)
		}
	}
}

func receiptOf(p payment.Payment) chain.Receipt {
	return chain.Receipt{Tx: p.LastAttempt().Hash, Succeeded: true, Block: 21}
}
