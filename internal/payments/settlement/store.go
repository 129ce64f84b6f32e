package settlement

import (
	"context"
	"time"

	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// A Store is the part of store.Store that a Settler uses, with its contract.
type Store interface {
	store.PendingTxs

	Rules(ctx context.Context) (store.Rules, error)
	Payment(ctx context.Context, id payment.ID) (payment.Payment, error)
	SetMined(ctx context.Context, id payment.ID, at time.Time) (payment.Payment, error)
	Finish(ctx context.Context, p payment.Payment) error

	Release(ctx context.Context, id payment.ID, tx wallet.PendingTx) error
	Orphan(ctx context.Context, id wallet.ID, holder payment.ID, nonce uint64) error
	RaiseCeiling(ctx context.Context, id wallet.ID, ceiling uint64) error
	LowerCeiling(ctx context.Context, id wallet.ID, ceiling uint64) error

	Open(ctx context.Context, w wallet.Wallet, of token.Address) error
	Retire(ctx context.Context, w wallet.Wallet, at time.Time) error
	Wallet(ctx context.Context, id wallet.ID) (wallet.Wallet, error)
	Wallets(ctx context.Context, rail token.Coin) (wallet.Registry, error)
	Compared(ctx context.Context, rail token.Coin) (store.Comparison, error)
	SetCompared(ctx context.Context, rail token.Coin, c store.Comparison) error
	Claim(ctx context.Context, id wallet.ID, by string, now, until time.Time, seen *wallet.Progress) (held bool, err error)
	Reconcile(ctx context.Context, w wallet.Wallet, balance, gas token.Amount, perMerchant map[string]uint64, seen *wallet.Progress) error
	Advance(ctx context.Context, id wallet.ID, next, noopsBelow uint64) error
	Pause(ctx context.Context, id wallet.ID, reason string) error
	Repause(ctx context.Context, id wallet.ID, from, to string) error
}
