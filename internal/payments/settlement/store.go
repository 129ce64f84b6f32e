package settlement

import (
	"context"
	"time"

	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// A Store is the part of store.Store that a Settler uses, with its contract.
type Store interface {
	store.PendingTxs
	store.Wallets

	Rules(ctx context.Context) (store.Rules, error)
	Payment(ctx context.Context, id payment.ID) (payment.Payment, error)
	SetMined(ctx context.Context, id payment.ID, at time.Time) (payment.Payment, error)
	Finish(ctx context.Context, p payment.Payment) error

	Release(ctx context.Context, id payment.ID, tx wallet.PendingTx) error
	Orphan(ctx context.Context, id wallet.ID, holder payment.ID, nonce uint64) error
	RaiseCeiling(ctx context.Context, id wallet.ID, ceiling uint64) error
	LowerCeiling(ctx context.Context, id wallet.ID, ceiling uint64) error
}
