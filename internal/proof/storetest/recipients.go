package storetest

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/recipient"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// Recipients checks that the store which open returns keeps the promises of
// recipient.Store. Every call of open may return the same store.
func Recipients(t *testing.T, open func(t *testing.T) recipient.Store) {
	examine(t, entryPromises, func(c tester) entryCheck { return entryCheck{c, open(c.T), "mer_" + rand.Text()} })
}

// An entryCheck examines one promise of recipient.Store.
type entryCheck struct {
	tester
	recipient.Store
	merchant string
}

// entry returns the n-th entry of the check's merchant, which is not stored.
func (c entryCheck) entry(n byte) recipient.Entry {
	at := noon.Add(time.Duration(n) * time.Millisecond)
	return recipient.Entry{Merchant: c.merchant, Mode: "test", Address: token.Address{n, 0xab}, Label: "Søn 🧁", CreatedAt: at,
		ActiveAt: at.Add(time.Hour)}
}

func (c entryCheck) add(entries ...recipient.Entry) {
	c.Helper()
	for _, e := range entries {
		if stored, added, err := c.AddEntry(c.Context(), e); err != nil || !added || stored != e {
			c.Fatalf("adding %+v: %+v, %v, %v", e, stored, added, err)
		}
	}
}

var entryPromises = []promise[entryCheck]{
	{"an entry is found as it was stored", func(c entryCheck) {
		e, bare := c.entry(1), c.entry(2)
		bare.Label = ""
		c.add(e, bare, e) // once more: the answer may have been lost
		for _, want := range []recipient.Entry{e, bare} {
			got := must.Get(c.Entry(c.Context(), c.merchant, "test", want.Address))(c)
			c.same("entry", want, got)
		}
	}},
	{"an entry that is there stays as it is", func(c entryCheck) {
		e := c.entry(1)
		c.add(e)
		later := e
		later.Label, later.CreatedAt, later.ActiveAt = "another", e.CreatedAt.Add(time.Hour), e.CreatedAt
		stored, added, err := c.AddEntry(c.Context(), later)
		c.ok("adding it again", err)
		if added {
			c.Error("it was added twice")
		}
		c.same("entry", e, stored)
	}},
	{"one of many that add an address adds it", func(c entryCheck) {
		c.winner(20, errOthers, func(ctx context.Context, i int) error {
			e := c.entry(1)
			e.CreatedAt = e.CreatedAt.Add(time.Duration(i) * time.Second)
			_, added, err := c.AddEntry(ctx, e)
			return othersUnless(added, err)
		})
	}},
	{"books of merchants and modes are apart", func(c entryCheck) {
		c.add(c.entry(1))
		for _, of := range [][2]string{{c.merchant, "live"}, {c.merchant + "x", "test"}} {
			c.refused("finding", must.Err(c.Entry(c.Context(), of[0], of[1], c.entry(1).Address)), recipient.ErrNotFound)
			c.refused("deleting", c.DeleteEntry(c.Context(), of[0], of[1], c.entry(1).Address), recipient.ErrNotFound)
			page, more, err := c.Entries(c.Context(), of[0], of[1], recipient.Position{}, 5)
			c.ok("listing", err)
			if more {
				c.Error("there is more than nothing")
			}
			c.same("list", []recipient.Entry{}, page)
		}
	}},
	{"a deleted entry is gone, and may be added anew", func(c entryCheck) {
		e := c.entry(1)
		c.add(e)
		c.ok("deleting", c.DeleteEntry(c.Context(), c.merchant, "test", e.Address))
		c.refused("finding", must.Err(c.Entry(c.Context(), c.merchant, "test", e.Address)), recipient.ErrNotFound)
		c.refused("deleting again", c.DeleteEntry(c.Context(), c.merchant, "test", e.Address), recipient.ErrNotFound)
		e.CreatedAt, e.ActiveAt = e.CreatedAt.Add(time.Hour), e.ActiveAt.Add(time.Hour)
		c.add(e)
	}},
	{"entries are listed newest first, page by page", func(c entryCheck) {
		var want []recipient.Entry
		for n := byte(7); n > 0; n-- {
			want = append(want, c.entry(n))
			c.add(c.entry(n))
		}
		c.eventually("all pages", func() string {
			got := []recipient.Entry{}
			for from, more := (recipient.Position{}), true; more; {
				var page []recipient.Entry
				var err error
				page, more, err = c.Entries(c.Context(), c.merchant, "test", from, 3)
				c.ok("listing", err)
				if len(page) == 0 {
					break
				}
				got = append(got, page...)
				from = recipient.Position{CreatedAt: page[len(page)-1].CreatedAt, Address: page[len(page)-1].Address}
			}
			return cmp.Diff(want, got)
		})
	}},
}
