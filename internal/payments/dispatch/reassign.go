package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// isRefusal reports whether a wallet, or the request's time, refused the reservation, so that nothing was reserved.
// After any other error a reservation may exist.
func isRefusal(err error) bool {
	refusals := []error{wallet.ErrUnknown, wallet.ErrOwner, wallet.ErrPaused, wallet.ErrHeld, wallet.ErrMerchantCap,
		wallet.ErrCeiling, wallet.ErrToken, wallet.ErrGas, errNoKey, ErrExpired}
	return slices.ContainsFunc(refusals, func(r error) bool { return errors.Is(err, r) })
}

// raise raises a wallet's ceiling if the chain has mined more of its nonces than the ceiling knows.
func (d sending) raise(ctx context.Context, w wallet.Wallet) bool {
	views, err := d.Nodes.Latest(ctx, w.Address, d.Token.Contract)
	var ceiling uint64
	if err == nil && !d.Nodes.Alone(len(views)) {
		ceiling = d.Nodes.Mined(views) + d.Window
	}
	return ceiling > w.Ceiling && d.Store.RaiseCeiling(ctx, w.ID, ceiling) == nil
}

var errNoKey = fmt.Errorf("%w: a wallet's key is out of reach", ErrUnavailable)

// keyless starts the cooldown of a wallet whose key is out of reach: another wallet's key may be available.
func (d sending) keyless(ctx context.Context, id wallet.ID, err error) error {
	d.pool.CoolDown(id, "no key", d.Now())
	d.Log.WarnContext(ctx, "wallet in cooldown: its key is out of reach", "wallet", id.Address, "err", err)
	return errors.Join(errNoKey, err)
}

// A search looks for a wallet that can make a payment.
type search struct {
	tried    []token.Address
	refusals []error // why each wallet so far cannot
}

// refused records why a wallet cannot pay. reassign may have put it into tried already.
func (s *search) refused(by token.Address, err error) {
	s.refusals = append(s.refusals, err)
	if !slices.Contains(s.tried, by) {
		s.tried = append(s.tried, by)
	}
}

// needOf returns what a reservation for p needs, within its merchant's cap unless the wallets are its own.
func (d sending) needOf(p payment.Payment) wallet.Need {
	need := store.NeedOf(p, d.Now())
	need.Owner = d.owner
	if need.Merchant = p.Merchant; d.owner == "" {
		need.MerchantCap = d.MerchantCap
	}
	return need
}

// errNoWallet reports that no wallet that may be able to pay is left to try, or that enough were tried.
var errNoWallet = errors.New("no wallet is left to try")

// reassign moves the payment to an untried wallet from which the token accepts it, and returns the stored payment,
// which another process may have changed first. It returns p and errNoWallet if no wallet is left. A crash after the
// write leaves a payment that the next request under its key finishes. A reservation on the earlier wallet is then an
// orphan: check-receipts uses its nonce up with a no-op.
func (d sending) reassign(ctx context.Context, p payment.Payment, s *search) (payment.Payment, error) {
	if d.refused != nil {
		return payment.Payment{}, d.refused
	}
	age := d.registryAge()
	if slices.ContainsFunc(s.refusals, isOwner) { // the registry may be older than an assignment
		age = justRead
	}
	wallets, err := d.registry(ctx, age)
	if err != nil {
		return payment.Payment{}, err
	}
	ids, short := d.candidates(ctx, wallets, d.needOf(p), s.tried)
	s.refusals = append(s.refusals, short...)
	for _, id := range ids {
		if len(s.tried) >= tries {
			s.refusals = append(s.refusals, errMore)
			break
		}
		s.tried = append(s.tried, id.Address)
		tx, err := d.simulate(ctx, id, p)
		if err != nil {
			s.refused(id.Address, fmt.Errorf("moving to %s: %w", id.Address, err))
			if errors.Is(err, ErrInsufficient) || errors.Is(err, errBlocked) || errors.Is(err, errUnapproved) {
				continue
			}
			break // no node answers, or the token refuses the recipient from any wallet
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
	return p, errNoWallet
}

func isOwner(err error) bool { return errors.Is(err, wallet.ErrOwner) }

// unable joins the reasons why no wallet can pay. Wallets of others do not count.
func unable(refusals []error) error {
	refusals = slices.DeleteFunc(slices.Clone(refusals), isOwner)
	others := slices.DeleteFunc(slices.Clone(refusals), func(err error) bool {
		return errors.Is(err, wallet.ErrToken) || errors.Is(err, ErrInsufficient)
	})
	if len(others) == 0 && len(refusals) > 0 {
		return ErrInsufficient // every wallet lacks the token only
	}
	return errors.Join(slices.Concat([]error{ErrUnavailable}, others)...)
}

// giveUp refuses a payment that no wallet can make now.
func (d sending) giveUp(ctx context.Context, p payment.Payment, refusals []error) (payment.Payment, error) {
	refusal := unable(refusals)
	if slices.ContainsFunc(refusals, func(err error) bool { return errors.Is(err, wallet.ErrMerchantCap) }) {
		refusal = ErrTooMany // a wallet would pay for another merchant
		d.crowd.add(p.Merchant, d.Now())
	}
	return d.refuse(ctx, p, refusal)
}
