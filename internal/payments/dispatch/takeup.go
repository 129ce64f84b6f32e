package dispatch

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// takeUp decides about a Prepared payment of an earlier request, charges it, and returns it as stored, with the charge.
// It reports whether the payment holds a nonce: such a payment is neither judged nor charged, and may be made at that
// nonce only. A payment without a nonce is made only if this request could begin it now: its recipient is on no list,
// every list answers, and it is within today's limits. If the settings have changed, it is stored as offer. While
// another handler may be making it, takeUp waits, and does not refuse, change or charge it. A crash leaves the payment
// as it was or as offer, and maybe charged.
func (d sending) takeUp(ctx context.Context, p payment.Payment, limits []payment.DailyLimit, offer payment.Payment,
	refusal error) (payment.Payment, store.Charge, bool, error) {
	failed := func(err error) (payment.Payment, store.Charge, bool, error) {
		return payment.Payment{}, store.Charge{}, false, err
	}
	stale := func() bool { return refusal == nil && d.stale(p, offer) }
	for waited := false; p.State == payment.Prepared && (refusal != nil || len(limits) > 0 || stale()); waited = true {
		held, err := d.reserved(ctx, p)
		switch old := d.Now().Sub(p.CreatedAt) >= handlerLife; {
		case err != nil: // another request may have charged it
			return failed(errors.Join(ErrInProgress, err))
		case held:
			return p, store.Charge{}, true, nil
		case old && errors.Is(refusal, ErrUnavailable): // it may be allowed later
			return failed(fmt.Errorf("%w: %s", ErrWaiting, refusal.Error()))
		case old && stale():
			if p, err = d.renew(ctx, p, offer); p.State != payment.Prepared {
				return p, store.Charge{}, false, err
			}
			fallthrough
		case old:
			var taken store.Charge
			if refusal == nil {
				if taken, refusal = d.charge(ctx, p, limits); refusal == nil {
					return p, taken, false, nil
				}
			}
			p, err = d.refuse(ctx, p, refusal)
			return p, store.Charge{}, false, err
		case waited:
			return failed(ErrDuplicate)
		}
		select {
		case <-d.After(duplicateWait):
		case <-ctx.Done():
		}
		switch p, err = d.reread(ctx, p); {
		case errors.Is(err, store.ErrNotFound): // the other request was refused
			return failed(ErrDuplicate)
		case err != nil:
			return failed(unfinished(err))
		}
	}
	return p, store.Charge{}, false, nil
}

// stale reports whether current settings would make p differently.
func (d sending) stale(p, offer payment.Payment) bool {
	return p.Tx.To != offer.Tx.To || !bytes.Equal(p.Tx.Data, offer.Tx.Data) || p.Tx.GasUnit != offer.Tx.GasUnit ||
		!d.FeeLimit.IsZero() && d.FeeLimit.Less(p.Tx.Fees.Cap)
}

// errStale reports a stored payment that would be paid through another contract now.
var errStale = fmt.Errorf("%w: the payment was stored for another batch contract", ErrUnavailable)

// renew stores p as it would be begun now, unless another process has changed it. Its batch contract cannot change: a
// payment for another contract is given up.
func (d sending) renew(ctx context.Context, p, offer payment.Payment) (payment.Payment, error) {
	if p.BatchContract != offer.BatchContract {
		return d.refuse(ctx, p, errStale)
	}
	renewed := p.AssignedTo(offer.Wallet, offer.Tx)
	if err := d.Store.Reassign(ctx, renewed, p.Revision); err != nil {
		return payment.Payment{}, errors.Join(ErrInProgress, err)
	}
	return renewed, nil
}

// reserved reports whether the payment already holds a nonce of its wallet. Then it is charged, and
// can no longer be refused.
func (d sending) reserved(ctx context.Context, p payment.Payment) (bool, error) {
	w, err := d.Store.Wallet(ctx, walletOf(p))
	if errors.Is(err, wallet.ErrUnknown) { // it has given no nonce out
		err = nil
	}
	_, held := w.Holds(p.ID, p.Revision)
	return held, err
}
