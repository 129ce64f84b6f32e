package storetest

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"remit/internal/chain"
	"remit/internal/payment"
	"remit/internal/store"
	"remit/internal/token"
)

var paymentPromises = []promise{
	{"a payment is found as it was stored", foundAsStored},
	{"an unknown payment is not found", unknownPayment},
	{"a payment that exists is returned and not changed", existing},
	{"of many racing creations one creates", racingCreations},
	{"a caller who has gone stores nothing", callerGone},
	{"an prepared payment is reassigned", reassigned},
	{"a payment is not reassigned unless it is as the caller read it", reassignRefused},
	{"a discarded payment is gone and may be made again", discarded},
	{"a payment is not discarded unless it is as the caller read it", discardRefused},
	{"a confirmed payment is stored with its event", confirmed},
	{"a failed payment is stored with its failure", failed},
	{"only a committed payment ends, and only once", finishRefused},
	{"of two racing ends one is stored", racingEnds},
	{"an unreadable payment is told from a missing one", unreadable},
}

func foundAsStored(c *check) {
	for _, amount := range []token.Amount{token.Units(1), token.MaxAmount()} {
		p := c.draft(c.walletID(), noon, amount)
		c.create(p)
		c.holds(p)
		c.leads(payment.Payment{}, signed(p.Revision, 0, p.Tx.Fees.Tip).Hash)
	}
	bare := payment.New("pay_"+payment.ID(c.merchant), payment.Request{Merchant: c.merchant, Mode: "live"}, coin, "base", noon)
	bare = bare.AssignedTo(token.Address{1}, chain.Tx{})
	c.create(bare)
	c.holds(bare)
}

func unknownPayment(c *check) {
	_, err := c.Payment(c.Context(), c.draft(c.walletID(), noon, token.Units(1)).ID)
	c.refused("reading", err, store.ErrNotFound)
	c.leads(payment.Payment{}, chain.Hash{}, chain.Hash{31: 1})
}

func existing(c *check) {
	first := c.created(c.walletID())
	other := c.draft(c.walletID(), noon.Add(time.Hour), token.Units(5))
	other.ID = first.ID
	for _, p := range []payment.Payment{first, other} {
		stored, created, err := c.Create(c.Context(), p)
		c.ok("creating again", err)
		if created {
			c.Error("created twice")
		}
		c.same("existing payment", first, stored)
	}
	c.holds(first)
	final := c.committed(first, 3)
	stored, created, err := c.Create(c.Context(), first)
	c.ok("creating again", err)
	c.samePayment("existing committed payment", final, stored)
	if created {
		c.Error("created twice")
	}
}

func racingCreations(c *check) {
	p := c.draft(c.walletID(), noon, token.Units(1))
	var creators atomic.Int32
	c.race(8, func(ctx context.Context, _ int) {
		stored, created, err := c.Create(ctx, p)
		if err != nil {
			c.Errorf("creating: %v", err)
		}
		if created {
			creators.Add(1)
		}
		c.same("returned payment", p, stored)
	})
	if n := creators.Load(); n != 1 {
		c.Errorf("%d callers created the payment", n)
	}
}

func callerGone(c *check) {
	p := c.draft(c.walletID(), noon, token.Units(1))
	gone, cancel := context.WithCancel(c.Context())
	cancel()
	_, created, err := c.Create(gone, p)
	if created || !errors.Is(err, context.Canceled) {
		c.Errorf("created %v, error %v", created, err)
	}
	_, err = c.Payment(c.Context(), p.ID)
	c.refused("reading", err, store.ErrNotFound)
}

func reassigned(c *check) {
	old := c.created(c.walletID())
	id := c.walletID()
	p := old.AssignedTo(id.Address, unsigned(id, old, 9))
	for range 2 { // the second time, it is
		c.ok("pinning anew", c.Reassign(c.Context(), p, old.Revision))
		c.holds(p)
	}
	c.refused("committing what was signed for the old revision", c.Commit(c.Context(), c.committing(old, 0)), store.ErrChanged)
	c.holds(p)
	c.committed(p, 0)
}

func reassignRefused(c *check) {
	p := c.created(c.walletID())
	id := c.walletID()
	next := p.AssignedTo(id.Address, unsigned(id, p, 9))
	c.refused("pinning with a stale revision", c.Reassign(c.Context(), next, "stale"), store.ErrChanged)
	c.holds(p)
	committed := c.committed(p, 1)
	c.refused("pinning a committed payment", c.Reassign(c.Context(), next, p.Revision), store.ErrChanged)
	c.refused("pinning a committed payment as it is", c.Reassign(c.Context(), p, p.Revision), store.ErrChanged)
	c.holds(committed)
	missing := c.draft(id, noon, token.Units(1))
	c.refused("pinning what is not there", c.Reassign(c.Context(), missing, missing.Revision), store.ErrChanged)
	_, err := c.Payment(c.Context(), missing.ID)
	c.refused("reading", err, store.ErrNotFound)
}

func discarded(c *check) {
	id := c.walletID()
	p := c.created(id)
	c.ok("discarding", c.Discard(c.Context(), p))
	_, err := c.Payment(c.Context(), p.ID)
	c.refused("reading", err, store.ErrNotFound)
	c.refused("discarding twice", c.Discard(c.Context(), p), store.ErrChanged)
	c.refused("committing a discarded payment", c.Commit(c.Context(), c.committing(p, 0)), store.ErrChanged)
	_, err = c.Payment(c.Context(), p.ID)
	c.refused("reading", err, store.ErrNotFound)
	c.holdsPendingTxs(id)

	again := p
	again.CreatedAt = p.CreatedAt.Add(time.Minute)
	again = again.AssignedTo(p.Wallet, p.Tx)
	c.create(again)
	c.refused("committing for the discarded one", c.Commit(c.Context(), c.committing(p, 0)), store.ErrChanged)
	c.holds(again)
}

func discardRefused(c *check) {
	p := c.created(c.walletID())
	stale := p
	stale.Revision = "stale"
	c.refused("discarding with a stale revision", c.Discard(c.Context(), stale), store.ErrChanged)
	c.holds(p)
	committed := c.committed(p, 1)
	c.refused("discarding a committed payment", c.Discard(c.Context(), p), store.ErrChanged)
	c.holds(committed)
}

func confirmed(c *check) {
	p := c.committed(c.created(c.walletID()), 4)
	p = c.bumped(p, 99)
	c.ok("adding an attempt", c.AddAttempt(c.Context(), p))
	p = c.confirming(p)
	c.ok("finishing", c.Finish(c.Context(), p))
	c.holds(p)
	c.leads(p, p.Hashes()...)
}

func failed(c *check) {
	for _, receipt := range []chain.Receipt{{}, {Tx: chain.Hash{9}, Block: 12}} {
		p := c.committed(c.created(c.walletID()), 4)
		code := payment.ExecutionReverted
		if receipt.Tx.IsZero() {
			code = payment.NonceConsumed
		}
		p, err := p.Fail(code, receipt, noon.Add(time.Hour))
		c.ok("failing", err)
		c.ok("finishing", c.Finish(c.Context(), p))
		c.holds(p)
	}
}

func finishRefused(c *check) {
	prepared := c.created(c.walletID())
	end := c.confirming(c.committing(prepared, 2))
	c.refused("finishing an prepared payment", c.Finish(c.Context(), end), store.ErrChanged)
	c.holds(prepared)

	p := c.committed(prepared, 2)
	end = c.confirming(p)
	c.ok("finishing", c.Finish(c.Context(), end))
	c.refused("finishing twice", c.Finish(c.Context(), end), store.ErrChanged)
	other, err := p.Fail(payment.TransferMissing, chain.Receipt{}, noon.Add(2*time.Hour))
	c.ok("failing", err)
	c.refused("failing a confirmed payment", c.Finish(c.Context(), other), store.ErrChanged)
	c.holds(end)

	missing := c.confirming(c.committing(c.draft(c.walletID(), noon, token.Units(1)), 0))
	c.refused("finishing what is not there", c.Finish(c.Context(), missing), store.ErrChanged)
	_, err = c.Payment(c.Context(), missing.ID)
	c.refused("reading", err, store.ErrNotFound)
}

func racingEnds(c *check) {
	p := c.committed(c.created(c.walletID()), 2)
	failed, err := p.Fail(payment.TransferMissing, chain.Receipt{}, noon.Add(2*time.Hour))
	c.ok("failing", err)
	ends := []payment.Payment{c.confirming(p), failed}
	results := make([]error, len(ends))
	c.race(len(ends), func(ctx context.Context, i int) { results[i] = c.Finish(ctx, ends[i]) })
	for i, end := range ends {
		if results[i] != nil {
			c.refused("finishing", results[i], store.ErrChanged)
			continue
		}
		c.refused("the other end", results[1-i], store.ErrChanged)
		c.holds(end)
	}
	if results[0] != nil && results[1] != nil {
		c.Errorf("neither end is stored: %v, %v", results[0], results[1])
	}
}

func unreadable(c *check) {
	id := c.walletID()
	p, intact := c.committed(c.created(id), 0), c.committed(c.created(id), 1)
	c.Spoil(p.ID)
	_, err := c.Payment(c.Context(), p.ID)
	c.refused("reading", err, store.ErrUnreadable)
	_, err = c.PaymentByHash(c.Context(), p.TxHash)
	c.refused("finding a hash", err, store.ErrUnreadable)
	_, created, err := c.Create(c.Context(), p)
	c.refused("creating", err, store.ErrUnreadable)
	if created {
		c.Error("created over an unreadable payment")
	}
	c.holds(intact)
}
