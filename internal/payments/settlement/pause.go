package settlement

import (
	"context"
	"errors"
	"slices"

	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// suspectAll pauses every wallet that is not suspect yet, once in a round, for its first caller's reason.
func (r *round) suspectAll(ctx context.Context, reason string) error {
	r.suspecting.Do(func() {
		r.suspected = async(func() error {
			wallets, err := r.Store.Wallets(ctx, r.Coin())
			for _, w := range slices.Concat(wallets.Working(true), wallets.Working(false)) {
				if err == nil {
					err = r.suspect(ctx, w.ID, reason)
				}
			}
			return err
		})
	})
	return r.suspected()
}

// suspect pauses a wallet that is not suspect yet. Without a record there is nothing to pause.
func (r *round) suspect(ctx context.Context, id wallet.ID, reason string) error {
	w, err := r.Store.Wallet(ctx, id)
	switch {
	case errors.Is(err, wallet.ErrUnknown), err == nil && w.Suspect():
		return nil
	case err != nil && !errors.Is(err, store.ErrUnreadable):
		return err
	}
	return r.pause(ctx, id, reason)
}

// pause adds a reason to a wallet's pause, which lasts until an operator ends it. It overwrites a reason that it cannot
// read, or that other processes have changed three times meanwhile.
func (r *round) pause(ctx context.Context, id wallet.ID, reason string) error {
	for tries := 0; ; tries++ {
		w, err := r.Store.Wallet(ctx, id)
		unreadable := errors.Is(err, store.ErrUnreadable)
		if err != nil && !unreadable {
			return err
		}
		to := w.PausedFor(reason)
		if unreadable || tries == 3 {
			return r.Store.Pause(ctx, id, to)
		}
		if to == w.Paused {
			return nil
		}
		if err := r.Store.Repause(ctx, id, w.Paused, to); !errors.Is(err, store.ErrChanged) {
			return err
		}
	}
}

// outOfGas pauses the wallet until a node takes its bytes, unless it is paused already.
func (p *pass) outOfGas(ctx context.Context, reply string) error {
	p.Log.ErrorContext(ctx, "wallet is out of gas funds", "wallet", p.wallet.Address, "reply", reply)
	p.setWaits(payment.WaitingForFunds)
	if p.wallet.Paused != "" {
		return nil
	}
	return p.repause(ctx, wallet.OutOfGas)
}

// recover ends a pause for lack of gas once a node takes our bytes, or nothing waits.
func (p *pass) recover(ctx context.Context) error {
	if p.wallet.Paused != wallet.OutOfGas {
		return nil
	}
	return p.repause(ctx, "")
}

// repause pauses the wallet, or ends its pause, unless others have changed its pause since the pass read it.
func (p *pass) repause(ctx context.Context, reason string) error {
	err := p.Store.Repause(ctx, p.wallet.ID, p.wallet.Paused, reason)
	if errors.Is(err, store.ErrChanged) {
		return nil
	}
	if err == nil {
		p.wallet.Paused = reason
	}
	return err
}
