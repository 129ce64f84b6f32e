package settlement

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// watchEvery is how often a run checks a retired wallet on the chain.
const watchEvery = 24 * time.Hour

// Errors of Retire.
var (
	ErrNotDraining = errors.New("the wallet is not draining") // new payments may still use it
	ErrUnsettled   = errors.New("the wallet is not settled")  // something is under way
)

// Retire ends the life of a draining wallet. It returns ErrUnsettled while the wallet has a reservation, a pending
// transaction, or a transaction that is not final on every node. It also refuses a wallet with transactions but no
// record, and a suspect one: restored tables may lack its payments, and recoveries skip retired wallets. For a stolen
// key it ignores suspicion, pending no-ops and counts: the thief may go on sending. A wallet that was never used gets a
// record.
//
// The write succeeds only if, since Retire read the wallet, no nonce was reserved and nobody (a recovery, for example)
// changed the pause. It also pauses the wallet, so that a process with an older registration reserves nothing. After a
// crash or a lost answer, call Retire again.
func (s *Settler) Retire(ctx context.Context, id wallet.ID, stolen bool) error {
	nodes, err := s.Nodes.Nodes(ctx)
	if err != nil {
		return fmt.Errorf("finding nodes: %w", err)
	}
	wallets, err := s.Store.Wallets(ctx, s.Coin())
	if err != nil {
		return fmt.Errorf("listing wallets: %w", err)
	}
	r, registered := wallets.Find(id.Address)
	switch {
	case !registered:
		return wallet.ErrUnknown
	case r.State == wallet.Retired:
		return nil
	case r.State != wallet.Draining:
		return ErrNotDraining
	}
	views, err := nodes.AllViews(ctx, id.Address, s.Token.Contract, s.ConfirmationRule)
	if err != nil {
		return err
	}
	settled, err := views.FinalCount(ctx, id.Address)
	if err != nil {
		return err
	}
	w, err := s.Store.Wallet(ctx, id)
	if errors.Is(err, wallet.ErrUnknown) {
		if settled > 0 {
			return fmt.Errorf("%w: %d of its transactions are final, and the tables have no record", ErrUnsettled, settled)
		}
		if err = s.Store.Open(ctx, wallet.Wallet{ID: id, Paused: wallet.Retiring, Merchant: r.Merchant}, s.Token.Contract); err == nil {
			w, err = s.Store.Wallet(ctx, id) // a handler may have been first
		}
	}
	if err != nil {
		return err
	}
	if w.Suspect() && !stolen {
		return fmt.Errorf("%w: the tables may lack payments of it, being paused for %q", ErrUnsettled, w.Paused)
	}
	txs, unreadable, err := s.Store.PendingTxs(ctx, id, 0)
	if err != nil {
		return err
	}
	if stolen {
		txs = slices.DeleteFunc(txs, wallet.PendingTx.Noop)
	}
	differs := func(v chain.View) bool { return v.Mined != w.NextNonce || v.Pending != w.NextNonce }
	counts := slices.ContainsFunc(views, differs) || settled != w.NextNonce
	if len(w.Reservations)+len(txs)+unreadable > 0 || !stolen && counts {
		return fmt.Errorf("%w: next nonce %d, %d mined, %d final, %d reservations, %d pending transactions, %d that cannot be read",
			ErrUnsettled, w.NextNonce, nodes.Mined(views), settled, len(w.Reservations), len(txs), unreadable)
	}
	return s.Store.Retire(ctx, w, s.Now())
}

// watch warns once a day of each retired wallet whose key is in use. Its claim keeps other runs from doing the same.
func (s *Settler) watch(ctx context.Context, nodes chain.Nodes, by string, wallets wallet.Registry) {
	_ = abreast(wallets, func(r wallet.Registration) error {
		if r.State != wallet.Retired {
			return nil
		}
		now := s.Now()
		w, err := s.Store.Wallet(ctx, r.ID)
		if err != nil || w.ClaimedUntil.After(now) {
			return err
		}
		if held, err := s.Store.Claim(ctx, r.ID, by, now, now.Add(watchEvery), nil); err != nil || !held {
			return err
		}
		views, err := nodes.Latest(ctx, r.Address, s.Token.Contract)
		if err == nil && nodes.Mined(views) > w.NextNonce {
			more := nodes.Mined(views) - w.NextNonce
			s.Log.WarnContext(ctx, "key of a retired wallet is in use", "wallet", r.Address, "transactions", more)
		}
		return err
	})
}
