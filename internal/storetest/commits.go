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

var commitPromises = []promise[*check]{
	{"a commit stores the payment, its pending transaction and its hash", commitStored},
	{"a commit leaves the reservation to its release", commitKeepsReservation},
	{"a commit for another revision stores nothing", commitOtherRevision},
	{"a payment is committed once", commitOnce},
	{"a nonce with a pending transaction takes no commit", commitPendingTxTaken},
	{"a changed payment wins over a taken nonce", commitBothFail},
	{"of many racing commits one is stored", racingCommits},
	{"of many payments racing for a nonce one is committed", racingForNonce},
	{"a new attempt is stored in payment, pending transaction and hash", attemptAdded},
	{"an attempt is refused unless all before it are stored", attemptRefused},
	{"of two racing attempts one is stored", racingAttempts},
}

func commitStored(c *check) {
	for _, nonce := range []uint64{0, math.MaxUint64} {
		p := c.create(c.draft(c.walletID(), noon, token.MaxAmount()))
		p = c.committed(p, nonce)
		c.holds(p)
		c.holdsTxOf(p)
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

// notStored checks that p is stored as it was, and no trace of the attempt to
// commit it.
func (c *check) notStored(p, attempt payment.Payment) {
	c.Helper()
	c.holds(p)
	c.leadsNowhere(attempt.TxHash)
	_, err := c.PendingTx(c.Context(), idOf(attempt), attempt.Nonce)
	c.refused("reading the pending transaction", err, wallet.ErrUnknown)
}

func commitOtherRevision(c *check) {
	p := c.created(c.walletID())
	stale := c.committing(p.AssignedTo(c.walletID().Address, p.Tx), 3)
	c.refused("committing", c.Commit(c.Context(), stale), store.ErrChanged)
	c.notStored(p, stale)

	missing := c.committing(c.unstored(), 3)
	c.refused("committing a missing payment", c.Commit(c.Context(), missing), store.ErrChanged)
	c.missing(missing.ID)
	c.leadsNowhere(missing.TxHash)
}

func commitOnce(c *check) {
	prepared := c.created(c.walletID())
	p := c.committed(prepared, 3)
	c.refused("committing twice", c.Commit(c.Context(), p), store.ErrChanged)
	second := c.committing(prepared, 4)
	c.refused("committing at another nonce", c.Commit(c.Context(), second), store.ErrChanged)
	c.notStored(p, second)
	end := c.confirmed(p)
	c.refused("committing a final payment", c.Commit(c.Context(), second), store.ErrChanged)
	c.notStored(end, second)
	c.holdsTxOf(p)
}

func commitPendingTxTaken(c *check) {
	id := c.walletID()
	first := c.committed(c.created(id), 3)
	p := c.created(id)
	second := c.committing(p, 3)
	c.refused("committing", c.Commit(c.Context(), second), store.ErrNonceTaken)
	c.holds(p)
	c.leadsNowhere(second.TxHash)
	c.holdsTxOf(first)
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
	won := c.winner(8, store.ErrChanged, func(ctx context.Context, i int) error {
		return patiently(func() error { return c.Commit(ctx, c.committing(p, uint64(i))) })
	})
	committed := c.committing(p, uint64(won))
	c.holds(committed)
	c.holdsTxOf(committed)
}

func racingForNonce(c *check) {
	id := c.walletID()
	drafts := make([]payment.Payment, 6)
	for i := range drafts {
		drafts[i] = c.created(id)
	}
	won := c.winner(len(drafts), store.ErrNonceTaken, func(ctx context.Context, i int) error {
		return patiently(func() error { return c.Commit(ctx, c.committing(drafts[i], 7)) })
	})
	drafts[won] = c.committing(drafts[won], 7)
	for _, p := range drafts {
		c.holds(p)
	}
	c.holdsTxOf(drafts[won])
}

func attemptAdded(c *check) {
	first := c.committed(c.created(c.walletID()), 3)
	p := first
	for tip := uint64(20); tip < 60; tip += 10 {
		p = c.bumped(p, tip)
		c.holds(p)
		c.holdsTxOf(p)
	}
	fees := chain.Fees{Tip: token.Units(60), Cap: token.Units(1060)}
	p, err := p.Cancel(signed("no-op", p.Nonce, fees.Tip), fees, noon)
	c.ok("cancelling", err)
	c.ok("adding an attempt that pays nothing", c.AddAttempt(c.Context(), p))
	c.holds(p)
	c.leads(p, p.Hashes()...)
	if p.TxHash != first.TxHash || len(p.Attempts) != 6 {
		c.Errorf("%d attempts of %s", len(p.Attempts), p.TxHash)
	}
}

func attemptRefused(c *check) {
	add := func(what string, p payment.Payment) {
		c.Helper()
		c.refused(what, c.AddAttempt(c.Context(), p), store.ErrChanged)
	}
	prepared := c.created(c.walletID())
	attempt := c.bumping(c.committing(prepared, 3), 20)
	add("bumping a prepared payment", attempt)
	c.notStored(prepared, attempt)

	committed := c.committed(prepared, 3)
	other := c.bumping(committed, 30)
	p := c.bumped(committed, 20)
	add("adding the attempt twice", p)
	add("adding another attempt beside it", other)
	add("adding an attempt over one that is not stored", c.bumping(other, 40))
	add("adding two attempts at once", c.bumping(c.bumping(p, 50), 60))
	c.holds(p)
	c.holdsTxOf(p)
	c.leadsNowhere(other.LastAttempt().Hash)

	next := c.bumping(p, 70)
	end := c.confirmed(p)
	add("bumping a final payment", next)
	c.holds(end)
	c.holdsTxOf(p)

	gone := c.committed(c.created(c.walletID()), 3)
	c.ok("deleting", c.DeletePendingTx(c.Context(), idOf(gone), 3))
	add("bumping without a pending transaction", c.bumping(gone, 20))
	c.holds(gone)
	c.holdsPendingTxs(idOf(gone))
}

func racingAttempts(c *check) {
	p := c.committed(c.created(c.walletID()), 3)
	bumps := []payment.Payment{c.bumping(p, 20), c.bumping(p, 30), c.bumping(p, 40)}
	won := c.winner(len(bumps), store.ErrChanged, func(ctx context.Context, i int) error {
		return patiently(func() error { return c.AddAttempt(ctx, bumps[i]) })
	})
	c.holds(bumps[won])
	c.holdsTxOf(bumps[won])
}
