package settlement

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// ReservationAge is how old a reservation is before a run finishes it: more
// than the 29 seconds that a handler of send-payment lives.
const ReservationAge = 45 * time.Second

// finishReservations commits the payments for which handlers reserved nonces and then crashed, so that every nonce is
// used. Finishing a fresh reservation would be as safe: whichever process signs the stored transaction, one commit
// wins, and no other bytes are sent.
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

func (p *pass) reserved() []payment.ID {
	held := p.wallet.Reservations
	return slices.SortedFunc(maps.Keys(held), func(a, b payment.ID) int { return cmp.Compare(held[a].Nonce, held[b].Nonce) })
}

func (p *pass) pending(nonce uint64) int {
	return slices.IndexFunc(p.pendingTxs, func(tx wallet.PendingTx) bool { return tx.Nonce == nonce })
}

// finishReservation stores the pending transaction of a reservation, and releases the reservation. A crash in between
// leaves a reservation that the next run only releases.
func (p *pass) finishReservation(ctx context.Context, id payment.ID, nonce uint64) error {
	pendingTx, err := p.useNonce(ctx, id, nonce)
	if err != nil || pendingTx == nil {
		return err
	}
	if err := p.Store.Release(ctx, id, *pendingTx); err != nil {
		return err
	}
	p.report.Reservations++
	return nil
}

// useNonce returns the pending transaction of a reserved nonce, and stores it unless one is stored. It returns nil if
// the nonce must wait for the next round, for example because another process was faster.
func (p *pass) useNonce(ctx context.Context, id payment.ID, nonce uint64) (*wallet.PendingTx, error) {
	if i := p.pending(nonce); i >= 0 {
		return &p.pendingTxs[i], nil
	}
	stored, err := p.Store.Payment(ctx, id)
	_, held := p.wallet.Holds(id, stored.Revision)
	switch {
	case errors.Is(err, store.ErrNotFound): // a handler discarded it while the reservation was under way
		return p.orphan(ctx, id, nonce)
	case errors.Is(err, store.ErrUnreadable):
		p.report.Unreadable++
		return nil, err
	case err != nil:
		return nil, err
	case stored.Wallet != p.wallet.Address || stored.Tx.ChainID != p.wallet.ChainID:
		return p.orphan(ctx, id, nonce) // another wallet pays it
	case stored.State == payment.Proposed, stored.State.UsedUp(): // it went back to its proposal, or has ended
		return p.orphan(ctx, id, nonce)
	case stored.State == payment.Prepared && (p.wallet.Suspect() || p.uncompared()):
		return nil, nil // it may have been paid since the tables were copied
	case stored.State == payment.Prepared && !held:
		return p.orphan(ctx, id, nonce) // the reservation is for another revision
	case stored.State == payment.Prepared:
		return p.commit(ctx, stored, nonce)
	case stored.Nonce != nonce:
		return p.orphan(ctx, id, nonce)
	case stored.State == payment.Committed: // committed after the pass read; a torn copy may lack tx
		tx, err := p.Store.PendingTx(ctx, p.wallet.ID, nonce)
		return &tx, err
	}
	// It was committed at this nonce, and its pending transaction is gone because it ended.
	pendingTx := store.PendingTxOf(stored)
	return &pendingTx, nil
}

// orphan uses up a reserved nonce that its payment will not use. It marks the reservation first: otherwise a handler
// might give the nonce back after the no-op is stored, and another payment would reserve it.
func (p *pass) orphan(ctx context.Context, id payment.ID, nonce uint64) (*wallet.PendingTx, error) {
	err := p.Store.Orphan(ctx, p.wallet.ID, id, nonce)
	if errors.Is(err, store.ErrChanged) {
		return nil, nil // a handler has returned it, or another run has used it up
	}
	if err != nil {
		return nil, err
	}
	return p.storeNoop(ctx, nonce)
}

// commit signs the payment's transaction and stores the bytes. A crash before the write leaves the reservation as it
// was; a crash after it leaves a reservation that the next run releases.
func (p *pass) commit(ctx context.Context, stored payment.Payment, nonce uint64) (*wallet.PendingTx, error) {
	signer, err := p.Keys.Signer(ctx, p.registered)
	if err != nil {
		return nil, err
	}
	stored.WalletOf = p.wallet.Merchant
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

// storeNoop stores a no-op at a nonce that no payment will ever use.
func (p *pass) storeNoop(ctx context.Context, nonce uint64) (*wallet.PendingTx, error) {
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
