package recovery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// Reasons of pauses begin with these: held those of Hold, ended those that End leaves.
const held, ended = wallet.Suspicion + ": remit recover is at work", wallet.Suspicion + ": remit recover has ended"

// Unfinished reports whether a wallet is suspect, and no recovery has ended since: the tables may lack payments of it.
func Unfinished(w wallet.Wallet) bool { return w.Suspect() && !strings.HasPrefix(w.Paused, ended) }

// Hold pauses every wallet that is not retired, and opens those of which the tables have no record, paused. A wallet
// that has a key and is not registered is registered as draining: it may have been a merchant's, whose coins must never
// pay for others, or retired. It reads no node. From then on no payment that the tables show as prepared is committed,
// until Resume. Run it before any process uses the restored tables. A stack without the rail is settings.ErrMissing.
func (r *Recovery) Hold(ctx context.Context) ([]wallet.ID, error) {
	if _, err := r.rules(ctx); err != nil && !errors.Is(err, settings.ErrDamaged) && !errors.Is(err, settings.ErrNewer) {
		return nil, err
	}
	ids, err := r.register(ctx)
	if err != nil || r.DryRun {
		return ids, err
	}
	var paused []wallet.ID
	for _, id := range ids {
		retired, err := r.hold(ctx, id)
		if err != nil {
			return nil, fmt.Errorf("pausing %s: %w", id.Address, err)
		}
		if !retired {
			paused = append(paused, id)
		}
	}
	return paused, nil
}

// register registers the wallets that have a key, and returns all that may have paid.
func (r *Recovery) register(ctx context.Context) (ids []wallet.ID, err error) {
	wallets, err := r.Store.Wallets(ctx, r.Coin())
	if err != nil {
		return nil, fmt.Errorf("listing wallets: %w", err)
	}
	for _, w := range slices.Concat(wallets.Working(true), wallets.Working(false)) {
		ids = append(ids, w.ID)
	}
	for i, a := range slices.Concat(r.Keyed, r.Wallets) {
		if _, registered := wallets.Find(a); registered {
			continue
		}
		id := wallet.ID{ChainID: r.ChainID, Address: a}
		ids = append(ids, id)
		if r.DryRun || i >= len(r.Keyed) {
			continue
		}
		if err := r.Store.Register(ctx, wallet.Registration{ID: id, Token: r.Token.Contract, State: wallet.Draining,
			Key: wallet.InSecret, Since: r.Now()}); err != nil {
			return nil, fmt.Errorf("registering %s: %w", a, err)
		}
		r.Say("%s was in no table, and is draining: let it pay with remit wallet drain --undo or assign", a)
	}
	return ids, nil
}

// hold pauses a wallet. It reports true, and leaves it, if an operator has retired it meanwhile: no round settles it.
func (r *Recovery) hold(ctx context.Context, id wallet.ID) (retired bool, err error) {
	for range 8 { // others may change it
		w, err := r.Store.Wallet(ctx, id)
		switch {
		case errors.Is(err, wallet.ErrUnknown):
			var wallets wallet.Registry
			if wallets, err = r.Store.Wallets(ctx, r.Coin()); err != nil {
				return false, err
			}
			of, _ := wallets.Find(id.Address)
			err = r.Store.Open(ctx, wallet.Wallet{ID: id, Reservations: map[payment.ID]wallet.Reservation{},
				Paused: held, Merchant: of.Merchant}, r.Token.Contract)
		case err == nil && (strings.HasPrefix(w.Paused, held) || w.Paused == wallet.RetiredReason):
			return !w.Suspect(), nil
		case err == nil:
			err = r.Store.Repause(ctx, id, w.Paused, w.PausedFor(held))
		}
		if err != nil && !errors.Is(err, store.ErrChanged) {
			return false, err
		}
	}
	return false, store.ErrChanged
}

// End notes that every rail is recovered: an operator may resume the wallets then. With resume it ends the pauses of
// Hold, and of a run that stopped every wallet; other reasons keep a wallet paused.
func (r *Recovery) End(ctx context.Context, ids []wallet.ID, resume bool) error {
	for _, id := range ids {
		w, err := r.Store.Wallet(ctx, id)
		to := w.PausedFor(ended)
		if resume {
			_, to = w.Reasons()
		}
		if err == nil && w.Suspect() {
			err = r.Store.Repause(ctx, id, w.Paused, to)
		}
		if err != nil {
			return fmt.Errorf("ending the recovery of %s: %w", id.Address, err)
		}
	}
	return nil
}
