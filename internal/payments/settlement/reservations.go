package settlement

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// finishReservations commits the payments that handlers reserved nonces for and
// did not commit, so that no nonce stays a hole. Finishing a fresh reservation
// would be as safe: whichever process signs the stored unsigned transaction, one
// commit wins, and no other bytes are sent.
func (p *pass) finishReservations(ctx context.Context) error {
	held := p.wallet.Reservations
	var errs []error
	for _, id := range p.reserved() {
		if p.age(held[id].At) < p.ReservationAge || p.short(ctx, 0) {
			continue
		}
		if err := p.finishReservation(ctx, id, held[id].Nonce); err != nil {
			errs = append(errs, fmt.Errorf("finishing the reservation of %s: %w", id, err))
		}
	}
	return errors.Join(errs...)
}

// reserved returns who holds a reservation, in nonce order.
func (p *pass) reserved() []payment.ID {
	held := p.wallet.Reservations
	return slices.SortedFunc(maps.Keys(held), func(a, b payment.ID) int { return cmp.Compare(held[a].Nonce, held[b].Nonce) })
}

// finishReservation brings one reservation to a stored pending transaction and
// releases it. A crash after the pending transaction is stored leaves a
// reservation that the next run only releases.
func (p *pass) finishReservation(ctx context.Context, id payment.ID, nonce uint64) error {
	pendingTx, err := p.fill(ctx, id, nonce)
	if err != nil || pendingTx == nil {
		return err
	}
	if err := p.Store.Release(ctx, id, *pendingTx); err != nil {
		return err
	}
	p.report.Reservations++
	return nil
}

// fill returns the stored pending transaction of a reserved nonce, storing it
// if need be, or nil when another process was faster: the next round finds its
// transaction.
func (p *pass) fill(ctx context.Context, id payment.ID, nonce uint64) (*wallet.PendingTx, error) {
	if i := slices.IndexFunc(p.pendingTxs, func(s wallet.PendingTx) bool { return s.Nonce == nonce }); i >= 0 {
		return &p.pendingTxs[i], nil
	}
	stored, err := p.Store.Payment(ctx, id)
	_, held := p.wallet.Holds(id, stored.Revision)
	switch {
	case errors.Is(err, store.ErrNotFound): // refused and discarded while its reservation was on the way
		return p.orphan(ctx, id, nonce)
	case errors.Is(err, store.ErrUnreadable):
		p.report.Unreadable++
		return nil, err
	case err != nil:
		return nil, err
	case stored.Wallet != p.wallet.Address || stored.Tx.ChainID != p.wallet.ChainID:
		return p.orphan(ctx, id, nonce) // it is, or will be, paid by another wallet
	case stored.State == payment.Prepared && p.wallet.Suspect():
		return nil, nil // it may have been made since the tables were copied
	case stored.State == payment.Prepared && !held:
		return p.orphan(ctx, id, nonce) // what it was taken for was refused, or changed
	case stored.State == payment.Prepared:
		return p.commit(ctx, stored, nonce)
	case stored.Nonce != nonce:
		return p.orphan(ctx, id, nonce) // an orphan
	default:
		// Committed at this very nonce: its pending transaction was stored with
		// it, and is gone only because the payment has ended.
		pendingTx := store.PendingTxOf(stored)
		return &pendingTx, nil
	}
}

// orphan fills the nonce of a reservation that its payment will not use. It marks the
// reservation first: a handler that gave the nonce back after the no-op is stored would
// have it reserved for another payment.
func (p *pass) orphan(ctx context.Context, id payment.ID, nonce uint64) (*wallet.PendingTx, error) {
	err := p.Store.Orphan(ctx, p.wallet.ID, id, nonce)
	if errors.Is(err, store.ErrChanged) {
		return nil, nil // a handler has given it back, or another run has filled it
	}
	if err != nil {
		return nil, err
	}
	return p.fillNoop(ctx, nonce)
}

// commit signs the stored unsigned transaction and stores the bytes. A crash
// before the write leaves the reservation as it was, one after it a reservation
// with its pending transaction: the next run releases it.
func (p *pass) commit(ctx context.Context, stored payment.Payment, nonce uint64) (*wallet.PendingTx, error) {
	signer, err := p.Keys.Signer(ctx, p.registered)
	if err != nil {
		return nil, err
	}
	committed, err := store.Commit(ctx, p.Store, signer, stored, nonce, p.Now())
	if errors.Is(err, store.ErrChanged) || errors.Is(err, store.ErrNonceTaken) {
		return nil, nil // next round
	}
	if err != nil {
		return nil, err
	}
	pendingTx := store.PendingTxOf(committed)
	p.pendingTxs = append(p.pendingTxs, pendingTx)
	return &pendingTx, nil
}

// fillNoop stores a no-op at a nonce that no payment will ever use.
func (p *pass) fillNoop(ctx context.Context, nonce uint64) (*wallet.PendingTx, error) {
	if p.unusable != nil {
		return nil, nil // next round
	}
	signer, err := p.Keys.Signer(ctx, p.registered)
	if err != nil {
		return nil, err
	}
	pendingTx, err := store.UseUp(ctx, p.Store, signer, p.Nodes, p.wallet.ID, nonce, p.FeeLimit, p.GasUnit, p.Now())
	if errors.Is(err, store.ErrNonceTaken) {
		return nil, nil // next round
	}
	if err != nil {
		return nil, err
	}
	p.report.Noops++
	p.pendingTxs = append(p.pendingTxs, pendingTx)
	return &pendingTx, nil
}
