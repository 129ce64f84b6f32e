package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

var (
	// ErrSimilarPending reports a similar payment (payment.Request.GuardID) not signed yet. Nothing was started.
	ErrSimilarPending = errors.New("a similar payment is in progress")
	// ErrGuardedBatch reports a batch of a key that has a repeat guard.
	ErrGuardedBatch = errors.New("a key with a repeat guard pays no batches")
	// errUnguarded reports a payment of a key without a guard, which a request of a guarded key takes up.
	errUnguarded = fmt.Errorf("%w: no guard names it", ErrDuplicate)
)

// A SimilarError reports the newest similar payment, which was made within the seconds of the key's repeat guard.
// Nothing was started.
type SimilarError struct{ TxHash chain.Hash }

func (e *SimilarError) Error() string { return "a similar payment was made: " + e.TxHash.String() }

// guarded judges r by its key's repeat guard. It returns the guard to create the payment id with, and the newest
// similar payment that may have moved coins, zero if there is none. It discards similar payments that a dead request
// left without a nonce. After a crash the guard may name a missing payment, which counts as none.
func (d sending) guarded(ctx context.Context, id payment.ID, r payment.Request) (g store.Guard, newest payment.Payment, err error) {
	if g, err = d.Store.Guard(ctx, r.GuardID(d.ChainID, d.Token.Contract)); err != nil {
		return g, newest, errors.Join(ErrUnavailable, err)
	}
	for ; len(g.Payments) > 0; g.Payments = g.Payments[:len(g.Payments)-1] {
		last := g.Payments[len(g.Payments)-1]
		if last == id { // if it is stored, it answers
			continue
		}
		p, err := d.named(ctx, last)
		switch {
		case errors.Is(err, store.ErrNotFound), err == nil && (p.PaidNobody() || p.State == payment.Proposed || p.State.UsedUp()):
			continue
		case err != nil:
			return g, newest, errors.Join(ErrUnavailable, err)
		case p.State == payment.Prepared:
			if err := d.giveWay(ctx, p); err != nil {
				return g, newest, err
			}
			continue
		case cmp.Or(d.due, d.Now()).Sub(p.CreatedAt) <= r.Key.Guard && p.TxHash != r.DifferentFrom:
			return g, newest, &SimilarError{p.TxHash}
		case p.State.Final():
			g.Payments = []payment.ID{last} // the guard ends sooner for older ones
		case len(g.Payments) >= store.MaxGuarded:
			return g, newest, ErrTooMany
		}
		return g, p, nil
	}
	return g, newest, nil
}

// named reads a payment that a guard names. DynamoDB applies the items of a transaction one after the other, so the
// guard may be there before its payment, or before the release of its proposal. The refused write waits for them.
func (d sending) named(ctx context.Context, id payment.ID) (payment.Payment, error) {
	p, err := d.Store.Payment(ctx, id)
	if errors.Is(err, store.ErrNotFound) || err == nil && p.State == payment.Proposed {
		if err := d.Store.Discard(ctx, payment.Payment{ID: id}); !errors.Is(err, store.ErrChanged) {
			return p, cmp.Or(err, store.ErrChanged)
		}
		return d.Store.Payment(ctx, id)
	}
	return p, err
}

// giveWay discards a Prepared payment without a nonce that no request can be making any more. It returns
// ErrSimilarPending for any other payment, and for one that a proposal holds.
func (d sending) giveWay(ctx context.Context, p payment.Payment) error {
	if p.Merchant == "" || d.Now().Sub(p.CreatedAt) < handlerLife { // remit recover, or a request, is making it
		return ErrSimilarPending
	}
	if err := d.startupCheck(ctx); err != nil { // it may have been made before the tables were restored
		return err
	}
	w, err := d.Store.Wallet(ctx, walletOf(p))
	if _, held := w.Holds(p.ID, p.Revision); held || w.Suspect() {
		return ErrSimilarPending
	}
	if err == nil || errors.Is(err, wallet.ErrUnknown) { // unknown: it has given no nonce out
		err = d.Store.Discard(ctx, p)
	}
	switch {
	case errors.Is(err, store.ErrChanged):
		return ErrSimilarPending
	case err != nil:
		return errors.Join(ErrUnavailable, err)
	}
	return nil
}
