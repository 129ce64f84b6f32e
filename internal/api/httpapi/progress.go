package httpapi

import (
	"context"
	"log/slog"

	"golang.org/x/sync/errgroup"

	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// A WalletFinder finds the wallets that pay; every store.Store is one.
type WalletFinder interface {
	Wallet(ctx context.Context, id wallet.ID) (wallet.Wallet, error)
}

const walletWidth = 16

// shown returns payments as merchants see them, with the progress of those that are pending. It reads each of their
// wallets once. A payment whose wallet cannot be read is shown as committed, which it is: never as mined.
func shown(ctx context.Context, wallets WalletFinder, payments ...payment.Payment) []payment.Public {
	read := map[wallet.ID]*wallet.Wallet{}
	var group errgroup.Group
	group.SetLimit(walletWidth)
	for _, p := range payments {
		id := wallet.ID{ChainID: p.Tx.ChainID, Address: p.Wallet}
		if p.State != payment.Committed || read[id] != nil {
			continue
		}
		w := new(wallet.Wallet)
		read[id] = w
		group.Go(func() error {
			found, err := wallets.Wallet(ctx, id)
			if err != nil {
				slog.WarnContext(ctx, "progress not shown", "wallet", id.Address, "err", err)
				return nil
			}
			*w = found
			return nil
		})
	}
	_ = group.Wait() // no call of the group returns an error
	public := make([]payment.Public, len(payments))
	for i, p := range payments {
		public[i] = p.Public()
		if w := read[wallet.ID{ChainID: p.Tx.ChainID, Address: p.Wallet}]; w != nil {
			public[i].Progress = w.ProgressOf(p)
		}
	}
	return public
}
