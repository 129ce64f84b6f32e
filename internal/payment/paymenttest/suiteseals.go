package paymenttest

import (
	"context"
	"math"

	"remit/internal/chain"
	"remit/internal/payment"
	"remit/internal/token"
	"remit/internal/wallet"
)

var sealPromises = []promise{
	{"a seal stores the payment, its slot and its hash", sealStored},
	{"a seal leaves the lease to its release", sealKeepsLease},
	{"a seal for another pin stores nothing", sealOtherPin},
	{"a payment is sealed once", sealOnce},
	{"a nonce with a slot takes no seal", sealSlotTaken},
	{"a changed payment wins over a taken slot", sealBothFail},
	{"of many racing seals one is stored", racingSeals},
	{"of many payments racing for a nonce one is sealed", racingForNonce},
	{"a new attempt is stored in payment, slot and hash", attemptAdded},
	{"an attempt is refused unless all before it are stored", attemptRefused},
	{"of two racing attempts one is stored", racingAttempts},
}

func sealStored(c *check) {
	for _, nonce := range []uint64{0, math.MaxUint64} {
		p := c.draft(c.walletID(), noon, token.MaxAmount())
		c.create(p)
		p = c.sealed(p, nonce)
		c.holds(p)
		c.holdsSlots(idOf(p), wallet.SlotOf(p))
		c.leads(p, p.TxHash)
	}
}

func sealKeepsLease(c *check) {
	w := c.opened()
	p := c.created(w.ID)
	w = c.leased(w, p.ID)
	c.sealed(p, w.Leases[p.ID].Nonce)
	c.holdsWallet(w)
}

// unsealed checks that nothing came of sealing p at nonce.
func (c *check) unsealed(p payment.Payment, attempt payment.Payment) {
	c.Helper()
	c.holds(p)
	c.leads(payment.Payment{}, attempt.TxHash)
	_, err := c.Slot(c.Context(), idOf(attempt), attempt.Nonce)
	c.refused("reading the slot", err, wallet.ErrUnknown)
}

func sealOtherPin(c *check) {
	p := c.created(c.walletID())
	id := c.walletID()
	stale := c.sealing(p.Pinned(id.Address, p.Tx), 3)
	c.refused("sealing", c.Seal(c.Context(), stale), payment.ErrChanged)
	c.unsealed(p, stale)

	missing := c.sealing(c.draft(id, noon, token.Units(1)), 3)
	c.refused("sealing what is not there", c.Seal(c.Context(), missing), payment.ErrChanged)
	_, err := c.Payment(c.Context(), missing.ID)
	c.refused("reading", err, payment.ErrNotFound)
	c.leads(payment.Payment{}, missing.TxHash)
}

func sealOnce(c *check) {
	unsealed := c.created(c.walletID())
	p := c.sealed(unsealed, 3)
	c.refused("sealing twice", c.Seal(c.Context(), p), payment.ErrChanged)
	second := c.sealing(unsealed, 4)
	c.refused("sealing at another nonce", c.Seal(c.Context(), second), payment.ErrChanged)
	c.unsealed(p, second)
	end := c.confirming(p)
	c.ok("finishing", c.Finish(c.Context(), end))
	c.refused("sealing a final payment", c.Seal(c.Context(), second), payment.ErrChanged)
	c.unsealed(end, second)
	c.holdsSlots(idOf(p), wallet.SlotOf(p))
}

func sealSlotTaken(c *check) {
	id := c.walletID()
	first := c.sealed(c.created(id), 3)
	p := c.created(id)
	second := c.sealing(p, 3)
	c.refused("sealing", c.Seal(c.Context(), second), wallet.ErrSlotTaken)
	c.holds(p)
	c.leads(payment.Payment{}, second.TxHash)
	c.holdsSlots(id, wallet.SlotOf(first))
	c.sealed(p, 4)
}

func sealBothFail(c *check) {
	id := c.walletID()
	c.sealed(c.created(id), 3)
	p := c.created(id)
	c.sealed(p, 4)
	c.refused("sealing", c.Seal(c.Context(), c.sealing(p, 3)), payment.ErrChanged)
}

func racingSeals(c *check) {
	p := c.created(c.walletID())
	results := make([]error, 8)
	c.race(len(results), func(ctx context.Context, i int) { results[i] = c.sealPatiently(ctx, c.sealing(p, uint64(i))) })
	var want []wallet.Slot
	for i, err := range results {
		if err != nil {
			c.refused("sealing", err, payment.ErrChanged)
			continue
		}
		sealed := c.sealing(p, uint64(i))
		c.holds(sealed)
		want = append(want, wallet.SlotOf(sealed))
	}
	if len(want) != 1 {
		c.Errorf("%d seals are stored", len(want))
	}
	c.holdsSlots(idOf(p), want...)
}

// sealPatiently repeats a seal whose outcome a store could not tell, as it
// may be when many transactions meet on one item.
func (c *check) sealPatiently(ctx context.Context, p payment.Payment) error {
	var err error
	for range 20 {
		err = c.Seal(ctx, p)
		if err == nil || isAny(err, payment.ErrChanged, wallet.ErrSlotTaken) {
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
	c.race(len(drafts), func(ctx context.Context, i int) { results[i] = c.sealPatiently(ctx, c.sealing(drafts[i], 7)) })
	var want []wallet.Slot
	for i, err := range results {
		if err != nil {
			c.refused("sealing", err, wallet.ErrSlotTaken)
			c.holds(drafts[i])
			continue
		}
		want = append(want, wallet.SlotOf(c.sealing(drafts[i], 7)))
	}
	if len(want) != 1 {
		c.Errorf("%d seals are stored", len(want))
	}
	c.holdsSlots(id, want...)
}

func attemptAdded(c *check) {
	first := c.sealed(c.created(c.walletID()), 3)
	p := first
	for tip := uint64(20); tip < 60; tip += 10 {
		p = c.bumped(p, tip)
		c.ok("adding an attempt", c.AddAttempt(c.Context(), p))
		c.holds(p)
		c.holdsSlots(idOf(p), wallet.SlotOf(p))
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
	unsealed := c.created(c.walletID())
	attempt := c.bumped(c.sealing(unsealed, 3), 20)
	c.refused("bumping an unsealed payment", c.AddAttempt(c.Context(), attempt), wallet.ErrChanged)
	c.unsealed(unsealed, attempt)

	sealed := c.sealed(unsealed, 3)
	p, other := c.bumped(sealed, 20), c.bumped(sealed, 30)
	c.ok("adding an attempt", c.AddAttempt(c.Context(), p))
	c.refused("adding it twice", c.AddAttempt(c.Context(), p), wallet.ErrChanged)
	c.refused("adding beside it", c.AddAttempt(c.Context(), other), wallet.ErrChanged)
	c.refused("adding over one that is not stored", c.AddAttempt(c.Context(), c.bumped(other, 40)), wallet.ErrChanged)
	c.refused("adding two at once", c.AddAttempt(c.Context(), c.bumped(c.bumped(p, 50), 60)), wallet.ErrChanged)
	c.holds(p)
	c.holdsSlots(idOf(p), wallet.SlotOf(p))
	c.leads(payment.Payment{}, other.LastAttempt().Hash)

	next := c.bumped(p, 70)
	end := c.confirming(p)
	c.ok("finishing", c.Finish(c.Context(), end))
	c.refused("bumping a final payment", c.AddAttempt(c.Context(), next), wallet.ErrChanged)
	c.holds(end)
	c.holdsSlots(idOf(p), wallet.SlotOf(p))

	gone := c.sealed(c.created(c.walletID()), 3)
	c.ok("deleting", c.DeleteSlot(c.Context(), idOf(gone), 3))
	c.refused("bumping without a slot", c.AddAttempt(c.Context(), c.bumped(gone, 20)), wallet.ErrChanged)
	c.holds(gone)
	c.holdsSlots(idOf(gone))
}

func racingAttempts(c *check) {
	p := c.sealed(c.created(c.walletID()), 3)
	bumps := []payment.Payment{c.bumped(p, 20), c.bumped(p, 30), c.bumped(p, 40)}
	results := make([]error, len(bumps))
	c.race(len(bumps), func(ctx context.Context, i int) {
		for range 20 {
			if results[i] = c.AddAttempt(ctx, bumps[i]); results[i] == nil || isAny(results[i], wallet.ErrChanged) {
				break
			}
		}
	})
	stored := 0
	for i, err := range results {
		if err != nil {
			c.refused("adding an attempt", err, wallet.ErrChanged)
			continue
		}
		stored++
		c.holds(bumps[i])
		c.holdsSlots(idOf(p), wallet.SlotOf(bumps[i]))
	}
	if stored != 1 {
		c.Errorf("%d attempts are stored", stored)
	}
}
