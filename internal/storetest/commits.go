package storetest

import (
	"context"
	"math"

	"remit/internal/chain"
	"remit/internal/payment"
	"remit/internal/store"
	"remit/internal/token"
	"remit/internal/wallet"
)

var commitPromises = []promise{
	{"a commit stores the payment, its pending transaction and its hash", commitStored},
	{"a commit leaves the reservation to its release", commitKeepsReservation},
	{"a commit for another revision stores nothing", commitOtherRevision},
	{"a payment is committed once", commitOnce},
	{"a nonce with a pending transaction takes no commit", commitPendingTxTaken},
	{"a changed payment wins over a taken pending transaction", commitBothFail},
	{"of many racing commits one is stored", racingCommits},
	{"of many payments racing for a nonce one is committed", racingForNonce},
	{"a new attempt is stored in payment, pending transaction and hash", attemptAdded},
	{"an attempt is refused unless all before it are stored", attemptRefused},
	{"of two racing attempts one is stored", racingAttempts},
}

func commitStored(c *check) {
	for _, nonce := range []uint64{0, math.MaxUint64} {
		p := c.draft(c.walletID(), noon, token.MaxAmount())
		c.create(p)
		p = c.committed(p, nonce)
		c.holds(p)
		c.holdsPendingTxs(idOf(p), store.PendingTxOf(p))
		c.leads(p, p.TxHash)
	}
}

func commitKeepsReservation(c *check) {
	w := c.opened()
	p := c.created(w.ID)
	w = c.reserved(w, p.ID)
	c.committed(p, w.Reservations[p.ID].Nonce)
	c.holdsWallet(w)
}

// prepared checks that nothing came of committing p at nonce.
func (c *check) prepared(p payment.Payment, attempt payment.Payment) {
	c.Helper()
	c.holds(p)
	c.leads(payment.Payment{}, attempt.TxHash)
	_, err := c.PendingTx(c.Context(), idOf(attempt), attempt.Nonce)
	c.refused("reading the pending transaction", err, wallet.ErrUnknown)
}

func commitOtherRevision(c *check) {
	p := c.created(c.walletID())
	id := c.walletID()
	stale := c.committing(p.AssignedTo(id.Address, p.Tx), 3)
	c.refused("committing", c.Commit(c.Context(), stale), store.ErrChanged)
	c.prepared(p, stale)

	missing := c.committing(c.draft(id, noon, token.Units(1)), 3)
	c.refused("committing what is not there", c.Commit(c.Context(), missing), store.ErrChanged)
	_, err := c.Payment(c.Context(), missing.ID)
	c.refused("reading", err, store.ErrNotFound)
	c.leads(payment.Payment{}, missing.TxHash)
}

func commitOnce(c *check) {
	prepared := c.created(c.walletID())
	p := c.committed(prepared, 3)
	c.refused("committing twice", c.Commit(c.Context(), p), store.ErrChanged)
	second := c.committing(prepared, 4)
	c.refused("committing at another nonce", c.Commit(c.Context(), second), store.ErrChanged)
	c.prepared(p, second)
	end := c.confirming(p)
	c.ok("finishing", c.Finish(c.Context(), end))
	c.refused("committing a final payment", c.Commit(c.Context(), second), store.ErrChanged)
	c.prepared(end, second)
	c.holdsPendingTxs(idOf(p), store.PendingTxOf(p))
}

func commitPendingTxTaken(c *check) {
	id := c.walletID()
	first := c.committed(c.created(id), 3)
	p := c.created(id)
	second := c.committing(p, 3)
	c.refused("committing", c.Commit(c.Context(), second), store.ErrNonceTaken)
	c.holds(p)
	c.leads(payment.Payment{}, second.TxHash)
	c.holdsPendingTxs(id, store.PendingTxOf(first))
	c.committed(p, 4)
}

func commitBothFail(c *check) {
	id := c.walletID()
	c.committed(c.created(id), 3)
	p := c.created(id)
	c.committed(p, 4)
	c.refused("committing", c.Commit(c.Context(), c.committing(p, 3)), store.ErrChanged)
}

func racingCommits(c *check) {
	p := c.created(c.walletID())
	results := make([]error, 8)
	c.race(len(results), func(ctx context.Context, i int) { results[i] = c.commitPatiently(ctx, c.committing(p, uint64(i))) })
	var want []wallet.PendingTx
	for i, err := range results {
		if err != nil {
			c.refused("committing", err, store.ErrChanged)
			continue
		}
		committed := c.committing(p, uint64(i))
		c.holds(committed)
		want = append(want, store.PendingTxOf(committed))
	}
	if len(want) != 1 {
		c.Errorf("%d commits are stored", len(want))
	}
	c.holdsPendingTxs(idOf(p), want...)
}

// commitPatiently repeats a commit whose outcome a store could not tell, as it
// may be when many transactions meet on one item.
func (c *check) commitPatiently(ctx context.Context, p payment.Payment) error {
	var err error
	for range 20 {
		err = c.Commit(ctx, p)
		if err == nil || isAny(err, store.ErrChanged, store.ErrNonceTaken) {
			break
		}
	}
	return err
}

func racingForNonce(c *check) {
	id := c.walletID()
	drafts := make([]payment.Payment, 6)
	for i := range drafts {
		drafts[i] = c.created(id)
	}
	results := make([]error, len(drafts))
	c.race(len(drafts), func(ctx context.Context, i int) { results[i] = c.commitPatiently(ctx, c.committing(drafts[i], 7)) })
	var want []wallet.PendingTx
	for i, err := range results {
		if err != nil {
			c.refused("committing", err, store.ErrNonceTaken)
			c.holds(drafts[i])
			continue
		}
		want = append(want, store.PendingTxOf(c.committing(drafts[i], 7)))
	}
	if len(want) != 1 {
		c.Errorf("%d commits are stored", len(want))
	}
	c.holdsPendingTxs(id, want...)
}

func attemptAdded(c *check) {
	first := c.committed(c.created(c.walletID()), 3)
	p := first
	for tip := uint64(20); tip < 60; tip += 10 {
		p = c.bumped(p, tip)
		c.ok("adding an attempt", c.AddAttempt(c.Context(), p))
		c.holds(p)
		c.holdsPendingTxs(idOf(p), store.PendingTxOf(p))
	}
	p, err := p.Cancel(signed("no-op", p.Nonce, token.Units(60)), chain.Fees{Tip: token.Units(60), Cap: token.Units(1060)}, noon)
	c.ok("cancelling", err)
	c.ok("adding an attempt that pays nothing", c.AddAttempt(c.Context(), p))
	c.holds(p)
	c.leads(p, p.Hashes()...)
	if p.TxHash != first.TxHash || len(p.Attempts) != 6 {
		c.Errorf("%d attempts of %s", len(p.Attempts), p.TxHash)
	}
}

func attemptRefused(c *check) {
	prepared := c.created(c.walletID())
	attempt := c.bumped(c.committing(prepared, 3), 20)
	c.refused("bumping an prepared payment", c.AddAttempt(c.Context(), attempt), store.ErrChanged)
	c.prepared(prepared, attempt)

	committed := c.committed(prepared, 3)
	p, other := c.bumped(committed, 20), c.bumped(committed, 30)
	c.ok("adding an attempt", c.AddAttempt(c.Context(), p))
	c.refused("adding it twice", c.AddAttempt(c.Context(), p), store.ErrChanged)
	c.refused("adding beside it", c.AddAttempt(c.Context(), other), store.ErrChanged)
	c.refused("adding over one that is not stored", c.AddAttempt(c.Context(), c.bumped(other, 40)), store.ErrChanged)
	c.refused("adding two at once", c.AddAttempt(c.Context(), c.bumped(c.bumped(p, 50), 60)), store.ErrChanged)
	c.holds(p)
	c.holdsPendingTxs(idOf(p), store.PendingTxOf(p))
	c.leads(payment.Payment{}, other.LastAttempt().Hash)

	next := c.bumped(p, 70)
	end := c.confirming(p)
	c.ok("finishing", c.Finish(c.Context(), end))
	c.refused("bumping a final payment", c.AddAttempt(c.Context(), next), store.ErrChanged)
	c.holds(end)
	c.holdsPendingTxs(idOf(p), store.PendingTxOf(p))

	gone := c.committed(c.created(c.walletID()), 3)
	c.ok("deleting", c.DeletePendingTx(c.Context(), idOf(gone), 3))
	c.refused("bumping without a pending transaction", c.AddAttempt(c.Context(), c.bumped(gone, 20)), store.ErrChanged)
	c.holds(gone)
	c.holdsPendingTxs(idOf(gone))
}

func racingAttempts(c *check) {
	p := c.committed(c.created(c.walletID()), 3)
	bumps := []payment.Payment{c.bumped(p, 20), c.bumped(p, 30), c.bumped(p, 40)}
	results := make([]error, len(bumps))
	c.race(len(bumps), func(ctx context.Context, i int) {
		for range 20 {
			if results[i] = c.AddAttempt(ctx, bumps[i]); results[i] == nil || isAny(results[i], store.ErrChanged) {
				break
			}
		}
	})
	stored := 0
	for i, err := range results {
		if err != nil {
			c.refused("adding an attempt", err, store.ErrChanged)
			continue
		}
		stored++
		c.holds(bumps[i])
		c.holdsPendingTxs(idOf(p), store.PendingTxOf(bumps[i]))
	}
	if stored != 1 {
		c.Errorf("%d attempts are stored", stored)
	}
}
