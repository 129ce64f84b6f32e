package dispatch

import (
	"context"
	"errors"
	"fmt"

	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
)

// Refill moves the stack's refill amount of one asset from the funding wallet to a wallet. Enough nodes must have
// reported the shortage at or after the block seen. Refill returns once the move is reserved, like Move, or may be
// under way.
//
// A wallet's refills have numbered keys. A number is used only if the refill before it has ended at or before seen: no
// crash, repetition or concurrent process refills twice, and a failed read refills nothing. A refused refill leaves its
// number to the next one. ErrDailyLimit means that the day's refills are used up, ErrUnavailable that there is no
// funding wallet.
func (d *Dispatcher) Refill(ctx context.Context, to token.Address, ether bool, seen uint64) error {
	rules, err := d.ruling(ctx)
	if err != nil {
		return err
	}
	rule, coin := rules.Refills.Token, d.Token
	if ether {
		rule, coin = rules.Refills.Ether, payment.Ether
	}
	if rule.Amount.IsZero() { // newer settings than the caller's; a transfer of zero would move everything
		return fmt.Errorf("%w: the settings have no refill", ErrUnavailable)
	}
	wallets, err := d.Store.Wallets(ctx, d.Coin())
	if err != nil {
		return errors.Join(ErrUnavailable, err)
	}
	funding, found := wallets.Funding()
	if !found {
		return fmt.Errorf("%w: there is no funding wallet: remit wallet funding ADDRESS makes one", ErrUnavailable)
	}
	if r, _ := wallets.Find(to); r.Merchant != "" && !ether {
		return fmt.Errorf("%w: %s is a merchant's own, and gets gas only", ErrUnavailable, to)
	}
	t := Transfer{Mode: d.Mode, From: funding.Address, To: to, Ether: ether, Amount: rule.Amount, Why: "refill", Daily: rule.Daily}
	key := func(n uint64) string { return fmt.Sprintf("refill/%s/%s/%d", to, d.nameOf(coin), n) }
	n, last, err := d.lastRefill(ctx, func(n uint64) payment.ID { return payment.KeyID(payment.Operator, t.Mode, key(n)) })
	if err != nil {
		return err
	}
	switch {
	case n == 0, last.State.Final() && last.Block <= seen:
		n++
	case last.State != payment.Prepared: // under way, or not arrived by seen
		return nil
	default:
		t.From, t.Amount = last.Wallet, last.Amount
	}
	t.Key = key(n)
	if _, err = d.Move(ctx, t); errors.Is(err, ErrInProgress) {
		d.Log.InfoContext(ctx, "refill in progress", "wallet", to, "number", n, "err", err)
		return nil // the next call goes on
	}
	return err
}

// lastRefill returns the highest number with a stored payment, and that payment; 0 if there is
// none. Each lower number has a payment too.
func (d *Dispatcher) lastRefill(ctx context.Context, id func(n uint64) payment.ID) (last uint64, p payment.Payment, err error) {
	for beyond := uint64(0); beyond == 0 || last+1 < beyond; {
		n := 2*last + 1
		if beyond > 0 {
			n = last + (beyond-last)/2
		}
		stored, err := d.Store.Payment(ctx, id(n))
		switch {
		case errors.Is(err, store.ErrNotFound):
			beyond = n
		case err != nil:
			return 0, p, fmt.Errorf("reading refill %d: %w", n, err)
		default:
			last, p = n, stored
		}
	}
	return last, p, nil
}
