package storetest

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/recovery/onchain"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
)

var paymentPromises = []promise[*check]{
	{"a payment is found as it was stored", func(c *check) {
		for _, amount := range []token.Amount{token.Units(1), token.MaxAmount()} {
			p := c.create(c.draft(c.walletID(), noon, amount))
			c.holds(p)
			c.leadsNowhere(signed(p.Revision, 0, p.Tx.Fees.Tip).Hash)
		}
		for _, n := range []int{1, 2, payment.MaxEntries} {
			c.holds(c.confirmed(c.committed(c.create(offer(c.walletID(), noon, c.batch(n))), 3)))
		}
		bare := payment.New("pay_"+payment.ID(c.merchant), payment.Request{Merchant: c.merchant, Mode: "live"}, usdc, "base", noon)
		c.holds(c.create(bare.AssignedTo(token.Address{1}, chain.Tx{To: usdc.Contract, Data: bare.CallData(false)})))
		ether := c.draft(c.walletID(), noon, token.Units(17))
		ether.Token = payment.Ether
		c.holds(c.create(ether.AssignedTo(ether.Wallet, chain.Tx{To: ether.To, Value: ether.Amount})))
	}},
	{"a payment that exists is returned and not changed", func(c *check) {
		again := func(p, want payment.Payment) {
			c.Helper()
			stored, created, err := c.Create(c.Context(), p)
			c.ok("creating again", err)
			if created {
				c.Error("created twice")
			}
			c.samePayment("existing payment", want, stored)
		}
		first := c.created(c.walletID())
		other := c.draft(c.walletID(), noon.Add(time.Hour), token.Units(5))
		other.ID = first.ID
		again(first, first)
		again(other, first)
		c.holds(first)
		again(first, c.committed(first, 3))
	}},
	{"of many racing creations one creates", func(c *check) {
		p := c.unstored()
		c.winner(8, errOthers, func(ctx context.Context, _ int) error {
			stored, created, err := c.Create(ctx, p)
			c.same("returned payment", p, stored)
			return othersUnless(created, err)
		})
	}},
	{"a caller who has gone stores nothing", func(c *check) {
		p := c.unstored()
		gone, cancel := context.WithCancel(c.Context())
		cancel()
		_, created, err := c.Create(gone, p)
		if created || !errors.Is(err, context.Canceled) {
			c.Errorf("created %v, error %v", created, err)
		}
		c.missing(p.ID)
	}},
	{"a prepared payment is reassigned", func(c *check) {
		old := c.created(c.walletID())
		id := c.walletID()
		p := old.AssignedTo(id.Address, unsigned(id, old, 9))
		for range 2 { // the second call finds the assignment stored
			c.ok("reassigning", c.Reassign(c.Context(), p, old.Revision))
			c.holds(p)
		}
		c.refused("committing bytes signed for the old revision", c.Commit(c.Context(), c.committing(old, 0)), store.ErrChanged)
		c.holds(p)
		c.committed(p, 0)
	}},
	{"a payment is not reassigned unless it is as the caller read it", func(c *check) {
		reassign := func(what string, p payment.Payment, old string) {
			c.Helper()
			c.refused("reassigning "+what, c.Reassign(c.Context(), p, old), store.ErrChanged)
		}
		p := c.created(c.walletID())
		id := c.walletID()
		next := p.AssignedTo(id.Address, unsigned(id, p, 9))
		reassign("with a stale revision", next, "stale")
		c.holds(p)
		committed := c.committed(p, 1)
		reassign("a committed payment", next, p.Revision)
		reassign("a committed payment to its own wallet", p, p.Revision)
		c.holds(committed)
		missing := c.unstored()
		reassign("a missing payment", missing, missing.Revision)
		c.missing(missing.ID)
	}},
	{"a prepared payment is discarded as it was read, and may be made again", func(c *check) {
		id := c.walletID()
		p := c.created(id)
		stale := p
		stale.Revision = "stale"
		c.refused("discarding with a stale revision", c.Discard(c.Context(), stale), store.ErrChanged)
		c.holds(p)
		c.ok("discarding", c.Discard(c.Context(), p))
		c.missing(p.ID)
		c.refused("discarding twice", c.Discard(c.Context(), p), store.ErrChanged)
		c.refused("committing a discarded payment", c.Commit(c.Context(), c.committing(p, 0)), store.ErrChanged)
		c.missing(p.ID)
		c.holdsPendingTxs(id)

		again := p
		again.CreatedAt = p.CreatedAt.Add(time.Minute)
		again = c.create(again.AssignedTo(p.Wallet, p.Tx))
		c.refused("committing for the discarded one", c.Commit(c.Context(), c.committing(p, 0)), store.ErrChanged)
		c.holds(again)
		committed := c.committed(again, 1)
		c.refused("discarding a committed payment", c.Discard(c.Context(), again), store.ErrChanged)
		c.holds(committed)
	}},
	{"a payment that was found on the chain is adopted once it is committed, a batch with its references", func(c *check) {
		for _, r := range []payment.Request{c.request(token.Units(1)), c.batch(1), c.batch(3)} {
			c.merchant = "mer_" + rand.Text()
			r.Merchant = c.merchant
			c.adopts(r)
		}
	}},
	{"a failed payment is stored with its failure", func(c *check) {
		dear := token.MaxAmount()
		for code, receipt := range map[payment.FailureCode]chain.Receipt{
			payment.NonceConsumed:     {},
			payment.TransferMissing:   {Tx: chain.Hash{9}, Block: 12},
			payment.ExecutionReverted: {Tx: chain.Hash{9}, Block: 12, Fee: &dear},
		} {
			p := c.failing(c.committed(c.created(c.walletID()), 4), code, receipt)
			c.ok("finishing", c.Finish(c.Context(), p))
			c.holds(p)
		}
	}},
	{"the first time at which a committed payment was mined is stored, and only that", func(c *check) {
		p := c.created(c.walletID())
		mined := func(want time.Time, after time.Duration) {
			c.Helper()
			got, err := c.SetMined(c.Context(), p.ID, noon.Add(after+time.Microsecond))
			c.ok("storing that it is mined", err)
			if p.MinedAt = want; !got.MinedAt.Equal(want) || got.ID != p.ID || len(got.Attempts) != 1 {
				c.Errorf("it was mined at %s: %+v", got.MinedAt, got)
			}
			c.holds(p)
		}
		c.refused("a prepared payment", must.Err(c.SetMined(c.Context(), p.ID, noon)), store.ErrChanged)
		p = c.committed(p, 4)
		mined(noon.Add(time.Second), time.Second)
		mined(noon.Add(time.Second), 2*time.Second)
		p = c.confirmed(p)
		c.refused("a final payment", must.Err(c.SetMined(c.Context(), p.ID, noon)), store.ErrChanged)
		c.holds(p)
		c.refused("a missing payment", must.Err(c.SetMined(c.Context(), "pay_missing", noon)), store.ErrChanged)
	}},
	{"a final payment loses its merchant's words, and nothing else", func(c *check) {
		p := c.committed(c.create(offer(c.walletID(), noon, c.batch(2))), 4)
		end := c.confirming(p)
		bare := must.Get(end.Redacted())(c)
		c.refused("redacting a payment under way", c.Redact(c.Context(), bare), store.ErrChanged)
		c.holds(p)
		c.ok("finishing", c.Finish(c.Context(), end))
		for range 2 {
			c.ok("redacting", c.Redact(c.Context(), bare))
			c.holds(bare)
		}
		bare.ID = "pay_missing"
		c.refused("redacting a missing payment", c.Redact(c.Context(), bare), store.ErrChanged)
	}},
	{"only a committed payment ends, and only once", func(c *check) {
		finish := func(what string, p payment.Payment) {
			c.Helper()
			c.refused("finishing "+what, c.Finish(c.Context(), p), store.ErrChanged)
		}
		prepared := c.created(c.walletID())
		finish("a prepared payment", c.confirming(c.committing(prepared, 2)))
		c.holds(prepared)

		p := c.committed(prepared, 2)
		end := c.confirmed(p)
		finish("a payment twice", end)
		finish("a confirmed payment as failed", c.failing(p, payment.TransferMissing, chain.Receipt{}))
		c.holds(end)

		missing := c.confirming(c.committing(c.unstored(), 0))
		finish("a missing payment", missing)
		c.missing(missing.ID)
	}},
	{"of two racing ends one is stored", func(c *check) {
		p := c.committed(c.created(c.walletID()), 2)
		ends := []payment.Payment{c.confirming(p), c.failing(p, payment.TransferMissing, chain.Receipt{})}
		c.holds(ends[c.winner(2, store.ErrChanged, func(ctx context.Context, i int) error { return c.Finish(ctx, ends[i]) })])
	}},
	{"an unreadable payment is told from a missing one", func(c *check) {
		id := c.walletID()
		p, intact := c.committed(c.created(id), 0), c.committed(c.created(id), 1)
		c.Spoil(p.ID)
		c.refused("reading", must.Err(c.Payment(c.Context(), p.ID)), store.ErrUnreadable)
		c.refused("finding a hash", must.Err(c.PaymentByHash(c.Context(), p.TxHash)), store.ErrUnreadable)
		_, created, err := c.Create(c.Context(), p)
		c.refused("creating", err, store.ErrUnreadable)
		if created {
			c.Error("created over an unreadable payment")
		}
		c.holds(intact)
	}},
}

// adopts checks the adoption of a payment of request that was found on the chain.
func (c *check) adopts(request payment.Request) {
	draft := offer(c.walletID(), noon, request)
	found, ok := onchain.Payment(chain.MinedTx{From: draft.Wallet, To: draft.Tx.To,
		Data: string(draft.CallData(true)), At: noon}, draft.Tx.ChainID, usdc, draft.Network)
	if !ok {
		c.Fatal("it was not found")
	}
	c.create(found)
	c.refused("adopting a prepared payment", c.Adopt(c.Context(), found.Adopted(request)), store.ErrChanged)
	c.holds(found)
	committed, err := found.Commit(chain.Signed{Nonce: 3, Hash: chain.Hash([]byte(found.Revision)), Raw: []byte{}}, noon)
	c.ok("committing", err)
	c.ok("committing", c.Commit(c.Context(), committed))
	adopted := committed.Adopted(request)
	c.ok("adopting", c.Adopt(c.Context(), adopted))
	c.holds(adopted)
	c.refused("finishing it as it was before", c.Finish(c.Context(), c.confirming(committed)), store.ErrChanged)
	other := request
	other.Merchant, other.Reference, other.Metadata = "mer_other", "", nil
	c.refused("adopting it for another merchant", c.Adopt(c.Context(), committed.Adopted(other)), store.ErrChanged)
	c.refused("adopting a payment of a merchant", c.Adopt(c.Context(), c.created(c.walletID())), store.ErrChanged)
	c.holds(adopted)
	page, _, err := c.List(c.Context(), store.Filter{Merchant: c.merchant, Mode: draft.Mode, Reference: request.Reference})
	c.ok("listing", err)
	if len(page) != 1 || page[0].ID != draft.ID {
		c.Errorf("the merchant's list has %d payments", len(page))
	}
	tx, err := c.PendingTx(c.Context(), wallet.ID{ChainID: draft.Tx.ChainID, Address: draft.Wallet}, 3)
	if err != nil || len(tx.Raw) != 0 {
		c.Errorf("its pending transaction is %+v, %v", tx, err)
	}

}
