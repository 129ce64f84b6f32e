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

// takeUp judges a Prepared payment of an earlier request anew, charges it, and returns it
// as it is stored then, with the charge. One that holds a nonce is charged, and is made.
// One without is made only by a request that could begin it now: not if a list has its
// recipient by now, or does not answer, nor above limits that were lowered; and as offer,
// where the settings differ by now. Nobody else refuses, changes or charges what another
// handler may be making: that is waited for. A crash leaves the payment as it was, or as
// offer, charged perhaps.
func (d sending) takeUp(ctx context.Context, p payment.Payment, limits []payment.DailyLimit, offer payment.Payment,
	refusal error) (payment.Payment, store.Charge, error) {
	failed := func(err error) (payment.Payment, store.Charge, error) { return payment.Payment{}, store.Charge{}, err }
	stale := func() bool { return refusal == nil && d.stale(p, offer) }
	for waited := false; p.State == payment.Prepared && (refusal != nil || len(limits) > 0 || stale()); waited = true {
		held, err := d.reserved(ctx, p)
		switch old := d.Now().Sub(p.CreatedAt) >= handlerLife; {
		case err != nil: // whether another request has charged it is not known
			return failed(errors.Join(ErrInProgress, err))
		case held:
			return p, store.Charge{}, nil
		case old && errors.Is(refusal, ErrUnavailable): // whether it may be made is not known
			return failed(fmt.Errorf("%w: %s", ErrWaiting, refusal.Error()))
		case old && stale():
			if p, err = d.renew(ctx, p, offer); p.State != payment.Prepared {
				return p, store.Charge{}, err
			}
			fallthrough
		case old:
			var taken store.Charge
			if refusal == nil {
				if taken, refusal = d.charge(ctx, p, limits); refusal == nil {
					return p, taken, nil
				}
			}
			p, err = d.refuse(ctx, p, refusal)
			return p, store.Charge{}, err
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
	return p, store.Charge{}, nil
}

// stale reports whether settings have p made otherwise by now than it is stored.
func (d sending) stale(p, offer payment.Payment) bool {
	return p.Tx.To != offer.Tx.To || !bytes.Equal(p.Tx.Data, offer.Tx.Data) || p.Tx.GasUnit != offer.Tx.GasUnit ||
		!d.FeeLimit.IsZero() && d.FeeLimit.Less(p.Tx.Fees.Cap)
}

// errStale reports a stored payment that would be paid through another contract now.
var errStale = fmt.Errorf("%w: the payment was stored for another batch contract", ErrUnavailable)

// renew stores how p would be begun now, if no other process has changed it. Its contract
// cannot be changed: a payment of another one is given up.
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

// reserved reports whether the payment holds a nonce of its wallet already. Then it is
// charged, and it is too late to refuse it.
func (d sending) reserved(ctx context.Context, p payment.Payment) (bool, error) {
	w, err := d.Store.Wallet(ctx, walletOf(p))
	if errors.Is(err, wallet.ErrUnknown) { // it has given no nonce out
		err = nil
	}
	_, held := w.Holds(p.ID, p.Revision)
	return held, err
}
