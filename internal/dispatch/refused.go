package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"remit/internal/payment"
	"remit/internal/store"
	"remit/internal/token"
	"remit/internal/wallet"
)

// isRefusal reports whether a wallet refused the reservation: then nothing was
// reserved. Any other error leaves that unknown.
func isRefusal(err error) bool {
	refusals := []error{wallet.ErrUnknown, wallet.ErrPaused, wallet.ErrShare, wallet.ErrCeiling, wallet.ErrToken, wallet.ErrGas}
	return slices.ContainsFunc(refusals, func(r error) bool { return errors.Is(err, r) })
}

// raise asks the chain how far the wallet is, and lifts its ceiling if that is
// further than the ceiling knew.
func (d sending) raise(ctx context.Context, w wallet.Wallet) bool {
	views, err := d.Nodes.Latest(ctx, w.Address, d.Token.Contract)
	if err != nil {
		return false
	}
	ceiling := views.Leading().Mined + d.Window
	if ceiling <= w.Ceiling {
		return false
	}
	return d.Store.RaiseCeiling(ctx, w.ID, ceiling) == nil
}

// errNoWallet reports that every active wallet was tried.
var errNoWallet = errors.New("no wallet is left to try")

// reassign moves the payment to a wallet that was not tried and from which the
// token makes it, and returns it as it is stored then: another process may have
// changed it first. It returns errNoWallet when no wallet is left, and adds to
// refusals why those that it tried cannot pay. A crash after the write leaves a
// payment that the next request under its key finishes; a reservation that it
// holds on the wallet it left is an orphan, which check-receipts fills with a
// no-op.
func (d sending) reassign(ctx context.Context, p payment.Payment, tried *[]token.Address, refusals *[]error) (payment.Payment, error) {
	wallets, err := d.registry(ctx, d.registryAge())
	if err != nil {
		return payment.Payment{}, err
	}
	for _, id := range d.pool.Choose(d.ChainID, wallets.Active(), p.Amount, d.Now()) {
		if slices.Contains(*tried, id.Address) {
			continue
		}
		*tried = append(*tried, id.Address)
		tx, err := d.simulate(ctx, id, p)
		if errors.Is(err, ErrInsufficient) {
			err = wallet.ErrToken
		}
		if err != nil {
			*refusals = append(*refusals, fmt.Errorf("moving to %s: %w", id.Address, err))
			if errors.Is(err, wallet.ErrToken) || errors.Is(err, errBlocked) || errors.Is(err, errUnapproved) {
				continue
			}
			break // no node answers, or the token refuses the recipient: so it would be with each
		}
		moved := p.AssignedTo(id.Address, tx)
		err = d.Store.Reassign(ctx, moved, p.Revision)
		if err == nil {
			return moved, nil
		}
		stored, readErr := d.reread(ctx, p)
		if readErr != nil {
			return payment.Payment{}, errors.Join(err, readErr)
		}
		return stored, nil
	}
	return payment.Payment{}, errNoWallet
}

// giveUp refuses a payment that no wallet can make now, and gives back what this request
// has taken from daily limits: another one gives back its own. A crash before the refund
// leaves the day charged with an amount that was not paid.
func (d sending) giveUp(ctx context.Context, p payment.Payment, taken store.Charge, refusals []error) (Result, error) {
	refusal := fmt.Errorf("%w: %w", ErrUnavailable, errors.Join(refusals...))
	if !slices.ContainsFunc(refusals, func(err error) bool { return !errors.Is(err, wallet.ErrToken) }) {
		refusal = ErrInsufficient // every wallet lacks the token only
	}
	if slices.ContainsFunc(refusals, func(err error) bool { return errors.Is(err, wallet.ErrShare) }) {
		refusal = ErrTooMany // a wallet would pay for another merchant
		d.crowd.add(p.Merchant, d.Now())
	}
	result, err := d.refuse(ctx, p, refusal)
	if errors.Is(err, refusal) && len(taken.Limits) > 0 {
		if err := d.Store.Refund(ctx, taken); err != nil {
			d.Log.WarnContext(ctx, "refund of daily limits unknown", "payment", p.ID, "err", err)
		}
	}
	return result, err
}
