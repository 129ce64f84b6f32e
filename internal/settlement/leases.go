package settlement

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"remit/internal/chain"
	"remit/internal/payment"
	"remit/internal/wallet"
)

// finishLeases seals what handlers leased and did not seal, so that no nonce
// stays a hole. Finishing a fresh lease would be as safe: the stored unsigned
// transaction has one signed form, and one seal wins.
func (p *pass) finishLeases(ctx context.Context) error {
	held := p.wallet.Leases
	var errs []error
	for _, id := range p.leased() {
		if p.age(held[id].At) < p.LeaseAge || p.short(ctx, 0) {
			continue
		}
		if err := p.finishLease(ctx, id, held[id].Nonce); err != nil {
			errs = append(errs, fmt.Errorf("finishing the lease of %s: %w", id, err))
		}
	}
	return errors.Join(errs...)
}

// leased returns who holds a lease, in nonce order.
func (p *pass) leased() []payment.ID {
	held := p.wallet.Leases
	return slices.SortedFunc(maps.Keys(held), func(a, b payment.ID) int { return cmp.Compare(held[a].Nonce, held[b].Nonce) })
}

// finishLease brings one lease to a stored slot and releases it. A crash after
// the slot is stored leaves a lease that the next run only releases.
func (p *pass) finishLease(ctx context.Context, id payment.ID, nonce uint64) error {
	slot, err := p.fill(ctx, id, nonce)
	if err != nil || slot == nil {
		return err
	}
	if err := p.Wallets.Release(ctx, id, *slot); err != nil {
		return err
	}
	p.report.Leases++
	return nil
}

// fill returns the stored slot of a leased nonce, storing it if need be, or nil
// when somebody else was about to: the next round finds what they did.
func (p *pass) fill(ctx context.Context, id payment.ID, nonce uint64) (*wallet.Slot, error) {
	if i := slices.IndexFunc(p.slots, func(s wallet.Slot) bool { return s.Nonce == nonce }); i >= 0 {
		return &p.slots[i], nil
	}
	stored, err := p.Payments.Payment(ctx, id)
	switch {
	case errors.Is(err, payment.ErrNotFound): // refused and withdrawn while its lease was on the way
		return p.fillNoop(ctx, nonce)
	case errors.Is(err, payment.ErrUnreadable):
		p.report.Unreadable++
		return nil, err
	case err != nil:
		return nil, err
	case stored.Wallet != p.wallet.Address || stored.Tx.ChainID != p.wallet.ChainID:
		return p.fillNoop(ctx, nonce) // it is, or will be, paid by another wallet
	case stored.State == payment.Unsealed:
		return p.seal(ctx, stored, nonce)
	case stored.Nonce != nonce:
		return p.fillNoop(ctx, nonce) // an orphan
	default:
		// Sealed at this very nonce: its slot was stored with it, and is gone
		// only because the payment has ended.
		slot := wallet.SlotOf(stored)
		return &slot, nil
	}
}

// seal signs the stored unsigned transaction and stores the bytes. A crash
// before the write leaves the lease as it was, one after it a lease with its
// slot: the next run releases it.
func (p *pass) seal(ctx context.Context, stored payment.Payment, nonce uint64) (*wallet.Slot, error) {
	signer, err := p.Keys.Signer(ctx, p.wallet.Address)
	if err != nil {
		return nil, err
	}
	signed, err := signer.Sign(stored.Tx, nonce)
	if err != nil {
		return nil, err
	}
	sealed, err := stored.Seal(signed, p.Now())
	if err != nil {
		return nil, err
	}
	err = p.Wallets.Seal(ctx, sealed)
	if errors.Is(err, payment.ErrChanged) || errors.Is(err, wallet.ErrSlotTaken) {
		return nil, nil // next round
	}
	if err != nil {
		return nil, err
	}
	slot := wallet.SlotOf(sealed)
	p.keep(slot)
	return &slot, nil
}

// fillNoop stores a no-op at a nonce that no payment will ever use. Two runs
// may sign different ones: only the stored one is ever sent. A crash after the
// write leaves a slot that the next run sends.
func (p *pass) fillNoop(ctx context.Context, nonce uint64) (*wallet.Slot, error) {
	market, err := p.Nodes.Fees(ctx)
	if err != nil {
		return nil, err
	}
	signer, err := p.Keys.Signer(ctx, p.wallet.Address)
	if err != nil {
		return nil, err
	}
	tx := chain.Noop(p.ChainID, p.wallet.Address, chain.QuoteFees(market.BaseFee, market.Tip, p.FeeLimit))
	signed, err := signer.Sign(tx, nonce)
	if err != nil {
		return nil, err
	}
	slot := wallet.NoopSlot(p.wallet.ID, tx, signed, p.Now())
	err = p.Wallets.PutNoop(ctx, slot)
	if errors.Is(err, wallet.ErrSlotTaken) {
		return nil, nil // next round
	}
	if err != nil {
		return nil, err
	}
	p.report.Noops++
	p.keep(slot)
	return &slot, nil
}
