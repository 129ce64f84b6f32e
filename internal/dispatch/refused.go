package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"remit/internal/payment"
	"remit/internal/token"
	"remit/internal/wallet"
)

// unreserved answers a reservation that did not succeed. It returns the payment to
// reservation again for (the same wallet, now open or with a higher ceiling, or
// another one), or nil and the answer to the request.
func (d *Dispatcher) unreserved(ctx context.Context, p payment.Payment, w wallet.Wallet, refusal error) (*payment.Payment, Result, error) {
	var refusals []error
	tried := []token.Address{p.Wallet}
	for {
		switch {
		case errors.Is(refusal, wallet.ErrUnknown):
			if err := d.look(ctx); err != nil { // a key that was added since
				return nil, Result{}, errors.Join(ErrInProgress, err)
			}
			return &p, Result{}, nil
		case errors.Is(refusal, wallet.ErrCeiling):
			if d.raise(ctx, w) {
				return &p, Result{}, nil
			}
		case !isRefusal(refusal):
			// The reservation may be held. If so its payment will be made.
			d.Log.WarnContext(ctx, "reservation unknown", "payment", p.ID, "err", refusal)
			return d.again(ctx, p, refusal)
		}
		d.pool.Saw(w)
		refusals = append(refusals, refusal)
		next, err := d.reassign(ctx, p, &tried)
		if err != nil {
			return nil, Result{}, unfinished(err)
		}
		if next == nil {
			result, err := d.giveUp(ctx, p, refusals)
			return nil, result, err
		}
		if next.State != payment.Prepared || next.Wallet == p.Wallet {
			return next, Result{}, nil // somebody else was faster
		}
		p = *next
		if w, refusal = d.Store.Reserve(ctx, d.needs(p)); refusal == nil {
			d.pool.Saw(w)
			return &p, Result{}, nil // held: the next reservation finds it
		}
	}
}

func isRefusal(err error) bool {
	for _, r := range []error{wallet.ErrUnknown, wallet.ErrPaused, wallet.ErrCeiling, wallet.ErrToken, wallet.ErrGas} {
		if errors.Is(err, r) {
			return true
		}
	}
	return false
}

// again reads the payment after a reservation whose outcome is unknown, for another
// try: a reservation that was taken is found and taken over.
func (d *Dispatcher) again(ctx context.Context, p payment.Payment, cause error) (*payment.Payment, Result, error) {
	stored, err := d.Store.Payment(ctx, p.ID)
	if err != nil {
		return nil, Result{}, errors.Join(ErrInProgress, cause, err)
	}
	if stored.Fingerprint != p.Fingerprint {
		return nil, Result{}, ErrKeyReused
	}
	return &stored, Result{}, nil
}

// raise asks the chain how far the wallet is, and lifts its ceiling if that is
// further than the ceiling knew.
func (d *Dispatcher) raise(ctx context.Context, w wallet.Wallet) bool {
	views, err := d.Nodes.Views(ctx, w.Address, d.Token.Contract, d.ConfirmationRule)
	if err != nil {
		return false
	}
	ceiling := views.Leading().Mined + d.Window
	if ceiling <= w.Ceiling {
		return false
	}
	return d.Store.RaiseCeiling(ctx, w.ID, ceiling) == nil
}

// reassign moves the payment to a wallet that was not tried. It returns nil when
// there is none, and what is stored when somebody else changed the payment. A
// crash after the write leaves a payment that the next request under its key
// finishes; a reservation that it holds on the wallet it left is an orphan, which
// check-receipts fills with a no-op.
func (d *Dispatcher) reassign(ctx context.Context, p payment.Payment, tried *[]token.Address) (*payment.Payment, error) {
	active, err := d.Keys.Active(ctx)
	if err != nil {
		return nil, err
	}
	for _, id := range d.pool.Choose(d.ChainID, active, p.Amount) {
		if slices.Contains(*tried, id.Address) {
			continue
		}
		*tried = append(*tried, id.Address)
		moved := p.AssignedTo(id.Address, p.Tx)
		err := d.Store.Reassign(ctx, moved, p.Revision)
		if err == nil {
			return &moved, nil
		}
		stored, readErr := d.Store.Payment(ctx, p.ID)
		if readErr != nil {
			return nil, errors.Join(err, readErr)
		}
		if stored.Fingerprint != p.Fingerprint {
			return nil, ErrKeyReused
		}
		return &stored, nil
	}
	return nil, nil
}

// giveUp refuses a payment that no wallet can make now. A crash before the
// refund leaves the day charged with what was not paid.
func (d *Dispatcher) giveUp(ctx context.Context, p payment.Payment, refusals []error) (Result, error) {
	refusal := fmt.Errorf("%w: %w", ErrUnavailable, errors.Join(refusals...))
	if isUnaffordable(refusals) {
		refusal = ErrInsufficient
	}
	result, err := d.refuse(ctx, p, refusal)
	if errors.Is(err, refusal) && !d.Daily.IsZero() {
		if err := d.Store.Refund(ctx, p.Merchant, p.Mode, p.Amount, p.CreatedAt); err != nil {
			d.Log.WarnContext(ctx, "refund of daily limit unknown", "payment", p.ID, "err", err)
		}
	}
	return result, err
}
