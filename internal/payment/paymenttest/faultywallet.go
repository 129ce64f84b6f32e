package paymenttest

import (
	"context"
	"time"

	"remit/internal/payment"
	"remit/internal/token"
	"remit/internal/wallet"
)

// Commit implements wallet.PendingTxs.
func (f *Faulty) Commit(ctx context.Context, p payment.Payment) error {
	return f.do(ctx, "Commit", func() error { return f.Ports.Commit(ctx, p) })
}

// AddAttempt implements wallet.PendingTxs.
func (f *Faulty) AddAttempt(ctx context.Context, p payment.Payment) error {
	return f.do(ctx, "AddAttempt", func() error { return f.Ports.AddAttempt(ctx, p) })
}

// PutNoop implements wallet.PendingTxs.
func (f *Faulty) PutNoop(ctx context.Context, s wallet.PendingTx) error {
	return f.do(ctx, "PutNoop", func() error { return f.Ports.PutNoop(ctx, s) })
}

// BumpNoop implements wallet.PendingTxs.
func (f *Faulty) BumpNoop(ctx context.Context, s wallet.PendingTx) error {
	return f.do(ctx, "BumpNoop", func() error { return f.Ports.BumpNoop(ctx, s) })
}

// PendingTxs implements wallet.PendingTxs.
func (f *Faulty) PendingTxs(ctx context.Context, id wallet.ID) ([]wallet.PendingTx, int, error) {
	unreadable := 0
	pendingTxs, err := ask(ctx, f, "PendingTxs", func() (pendingTxs []wallet.PendingTx, err error) {
		pendingTxs, unreadable, err = f.Ports.PendingTxs(ctx, id)
		return pendingTxs, err
	})
	if err != nil {
		return nil, 0, err
	}
	return pendingTxs, unreadable, nil
}

// PendingTx implements wallet.PendingTxs.
func (f *Faulty) PendingTx(ctx context.Context, id wallet.ID, nonce uint64) (wallet.PendingTx, error) {
	return ask(ctx, f, "PendingTx", func() (wallet.PendingTx, error) { return f.Ports.PendingTx(ctx, id, nonce) })
}

// DeletePendingTx implements wallet.PendingTxs.
func (f *Faulty) DeletePendingTx(ctx context.Context, id wallet.ID, nonce uint64) error {
	return f.do(ctx, "DeletePendingTx", func() error { return f.Ports.DeletePendingTx(ctx, id, nonce) })
}

// Open implements wallet.Wallets.
func (f *Faulty) Open(ctx context.Context, w wallet.Wallet) error {
	return f.do(ctx, "Open", func() error { return f.Ports.Open(ctx, w) })
}

// Wallet implements wallet.Wallets.
func (f *Faulty) Wallet(ctx context.Context, id wallet.ID) (wallet.Wallet, error) {
	return ask(ctx, f, "Wallet", func() (wallet.Wallet, error) { return f.Ports.Wallet(ctx, id) })
}

// Wallets implements wallet.Wallets.
func (f *Faulty) Wallets(ctx context.Context, chainID uint64) ([]wallet.ID, error) {
	return ask(ctx, f, "Wallets", func() ([]wallet.ID, error) { return f.Ports.Wallets(ctx, chainID) })
}

// Claim implements wallet.Wallets.
func (f *Faulty) Claim(ctx context.Context, id wallet.ID, by string, now, until time.Time) (bool, error) {
	return ask(ctx, f, "Claim", func() (bool, error) { return f.Ports.Claim(ctx, id, by, now, until) })
}

// Reconcile implements wallet.Wallets.
func (f *Faulty) Reconcile(ctx context.Context, id wallet.ID, next uint64, coin, gas token.Amount) error {
	return f.do(ctx, "Reconcile", func() error { return f.Ports.Reconcile(ctx, id, next, coin, gas) })
}

// Advance implements wallet.Wallets.
func (f *Faulty) Advance(ctx context.Context, id wallet.ID, next uint64, reason string) error {
	return f.do(ctx, "Advance", func() error { return f.Ports.Advance(ctx, id, next, reason) })
}

// Pause implements wallet.Wallets.
func (f *Faulty) Pause(ctx context.Context, id wallet.ID, reason string) error {
	return f.do(ctx, "Pause", func() error { return f.Ports.Pause(ctx, id, reason) })
}

// Repause implements wallet.Wallets.
func (f *Faulty) Repause(ctx context.Context, id wallet.ID, from, to string) error {
	return f.do(ctx, "Repause", func() error { return f.Ports.Repause(ctx, id, from, to) })
}
