package dispatch

import (
	"context"

	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// A Store is the part of store.Store that a Dispatcher uses, with its contract.
type Store interface {
	store.Nonces
	store.DailyLimits
	store.Proposals
	Rules(ctx context.Context) (store.Rules, error)

	Create(ctx context.Context, p payment.Payment) (stored payment.Payment, created bool, err error)
	CreateGuarded(ctx context.Context, p payment.Payment, g store.Guard) (stored payment.Payment, created bool, err error)
	Guard(ctx context.Context, id string) (store.Guard, error)
	Payment(ctx context.Context, id payment.ID) (payment.Payment, error)
	Reassign(ctx context.Context, p payment.Payment, old string) error
	Discard(ctx context.Context, p payment.Payment) error
	Adopt(ctx context.Context, p payment.Payment) error
	Commit(ctx context.Context, p payment.Payment) error
	PutNoop(ctx context.Context, tx wallet.PendingTx) error
	PendingTx(ctx context.Context, id wallet.ID, nonce uint64) (wallet.PendingTx, error)
	PendingTxs(ctx context.Context, id wallet.ID, from uint64) (txs []wallet.PendingTx, unreadable int, err error)

	Open(ctx context.Context, w wallet.Wallet, of token.Address) error
	Wallet(ctx context.Context, id wallet.ID) (wallet.Wallet, error)
	Wallets(ctx context.Context, rail token.Coin) (wallet.Registry, error)
	Compared(ctx context.Context, rail token.Coin) (store.Comparison, error)
	Repause(ctx context.Context, id wallet.ID, from, to string) error
}
