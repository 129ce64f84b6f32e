package storetest

import (
	"context"
	"errors"
	"slices"

	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
)

var damagePromises = []promise[*check]{
	{"an unreadable payment is told from a missing one, and hides no other", func(c *check) {
		p, intact := c.stage("committed").committed, c.stage("committed").committed
		c.Spoil(p.ID)
		_, created, err := c.Create(c.Context(), p)
		for what, err := range map[string]error{
			"reading": must.Err(c.Payment(c.Context(), p.ID)), "finding its hash": must.Err(c.PaymentByHash(c.Context(), p.TxHash)), "creating": err,
		} {
			c.refused(what, err, store.ErrUnreadable)
		}
		page, _, err := c.List(c.Context(), store.Filter{Merchant: c.merchant, Mode: "test"})
		c.ok("listing", err)
		if created || len(page) != 1 || page[0].ID != intact.ID {
			c.Errorf("created %v, %d are listed", created, len(page))
		}
		unreadable, found := 0, []payment.ID{}
		for e, err := range c.Entries(c.Context()) {
			if errors.Is(err, store.ErrUnreadable) {
				unreadable++
			} else if c.ok("reading the books", err); e.Payment.ID != "" {
				found = append(found, e.Payment.ID)
			}
		}
		if unreadable == 0 || slices.Contains(found, p.ID) || !slices.Contains(found, intact.ID) {
			c.Errorf("%d entries are unreadable, among %v", unreadable, found)
		}
		for range c.Entries(c.Context()) {
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
	{"a pending transaction that does not decode is left out and counted, and keeps its nonce", func(c *check) {
		p := c.stage("committed").committed
		n := noop(idOf(p), 9)
		c.ok("putting a no-op", c.PutNoop(c.Context(), n))
		c.SpoilPendingTx(n.ID, 3)
		txs, unreadable, err := c.PendingTxs(c.Context(), n.ID, 0)
		c.ok("reading them all", err)
		c.same("those that decode", []wallet.PendingTx{n}, txs)
		c.same("how many do not", 1, unreadable)
		c.refused("reading the damaged one", must.Err(c.PendingTx(c.Context(), n.ID, 3)), store.ErrUnreadable)
		c.refused("putting a no-op over it", c.PutNoop(c.Context(), noop(n.ID, 3)), store.ErrNonceTaken)
	}},
}
