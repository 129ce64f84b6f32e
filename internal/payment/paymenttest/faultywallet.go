package paymenttest

import (
	"context"
	"time"

	"remit/internal/payment"
	"remit/internal/token"
	"remit/internal/wallet"
)

// Seal implements wallet.Slots.
func (f *Faulty) Seal(ctx context.Context, p payment.Payment) error {
	return f.do(ctx, "Seal", func() error { return f.Ports.Seal(ctx, p) })
}

// AddAttempt implements wallet.Slots.
func (f *Faulty) AddAttempt(ctx context.Context, p payment.Payment) error {
	return f.do(ctx, "AddAttempt", func() error { return f.Ports.AddAttempt(ctx, p) })
}

// PutNoop implements wallet.Slots.
func (f *Faulty) PutNoop(ctx context.Context, s wallet.Slot) error {
	return f.do(ctx, "PutNoop", func() error { return f.Ports.PutNoop(ctx, s) })
}

// BumpNoop implements wallet.Slots.
func (f *Faulty) BumpNoop(ctx context.Context, s wallet.Slot) error {
	return f.do(ctx, "BumpNoop", func() error { return f.Ports.BumpNoop(ctx, s) })
}

// Slots implements wallet.Slots.
func (f *Faulty) Slots(ctx context.Context, id wallet.ID) ([]wallet.Slot, int, error) {
	unreadable := 0
	slots, err := ask(ctx, f, "Slots", func() (slots []wallet.Slot, err error) {
		slots, unreadable, err = f.Ports.Slots(ctx, id)
		return slots, err
	})
	if err != nil {
		return nil, 0, err
	}
	return slots, unreadable, nil
}

// Slot implements wallet.Slots.
func (f *Faulty) Slot(ctx context.Context, id wallet.ID, nonce uint64) (wallet.Slot, error) {
	return ask(ctx, f, "Slot", func() (wallet.Slot, error) { return f.Ports.Slot(ctx, id, nonce) })
}

// DeleteSlot implements wallet.Slots.
func (f *Faulty) DeleteSlot(ctx context.Context, id wallet.ID, nonce uint64) error {
	return f.do(ctx, "DeleteSlot", func() error { return f.Ports.DeleteSlot(ctx, id, nonce) })
}

// Open implements wallet.Wallets.
func (f *Faulty) Open(ctx context.Context, w wallet.Wallet) error {
	return f.do(ctx, "Open", func() error { return f.Ports.Open(ctx, w) })
}

// Wallet implements wallet.Wallets.
func (f *Faulty) Wallet(ctx context.Context, id wallet.ID) (wallet.Wallet, error) {
	return ask(ctx, f, "Wallet", func() (wallet.Wallet, error) { return f.Ports.Wallet(ctx, id) })
}

// Roster implements wallet.Wallets.
func (f *Faulty) Roster(ctx context.Context, chainID uint64) ([]wallet.ID, error) {
	return ask(ctx, f, "Roster", func() ([]wallet.ID, error) { return f.Ports.Roster(ctx, chainID) })
}

// Attend implements wallet.Wallets.
func (f *Faulty) Attend(ctx context.Context, id wallet.ID, by string, now, until time.Time) (bool, error) {
	return ask(ctx, f, "Attend", func() (bool, error) { return f.Ports.Attend(ctx, id, by, now, until) })
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
