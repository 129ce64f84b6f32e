package paymenttest

import (
	"context"
	"errors"
	"time"

	"remit/internal/chain"
	"remit/internal/payment"
	"remit/internal/token"
	"remit/internal/wallet"
)

// ErrInjected is the error of a call that was made to fail. It is none that a
// port names, so the caller has to take the outcome for unknown.
var ErrInjected = errors.New("injected fault")

// An Outcome is what becomes of one call. The zero Outcome lets it through.
type Outcome struct {
	Before error           // returned at once, nothing is applied
	Wait   <-chan struct{} // the call is applied only when this is closed; a caller that goes before gets its context's error
	After  error           // returned although the call was applied
	Answer <-chan struct{} // the answer comes only when this is closed; a caller that goes before gets its context's error
}

// Fail is the outcome of a call that was never applied.
func Fail() Outcome { return Outcome{Before: ErrInjected} }

// Lose is the outcome of a call that was applied but whose answer was lost.
func Lose() Outcome { return Outcome{After: ErrInjected} }

// Hold is the outcome of a call that is applied once until is closed.
func Hold(until <-chan struct{}) Outcome { return Outcome{Wait: until} }

// Stall is the outcome of a call that is applied at once and answered once
// until is closed.
func Stall(until <-chan struct{}) Outcome { return Outcome{Answer: until} }

// Faulty is a store whose every call Decide can make fail. It is as safe for
// concurrent use as Decide is.
type Faulty struct {
	Ports
	// Decide says what becomes of a call of the method named op ("Reserve").
	Decide func(op string) Outcome
}

var _ Ports = (*Faulty)(nil)

// do makes a call without an answer.
func (f *Faulty) do(ctx context.Context, op string, call func() error) error {
	_, err := ask(ctx, f, op, func() (struct{}, error) { return struct{}{}, call() })
	return err
}

// ask makes a call as Decide says. An answer that is lost is the zero T.
func ask[T any](ctx context.Context, f *Faulty, op string, call func() (T, error)) (T, error) {
	var lost T
	o := f.Decide(op)
	if o.Before != nil {
		return lost, o.Before
	}
	if err := await(ctx, o.Wait); err != nil {
		return lost, err
	}
	answer, err := call()
	if o.After != nil {
		return lost, o.After
	}
	if err := await(ctx, o.Answer); err != nil {
		return lost, err
	}
	return answer, err
}

func await(ctx context.Context, gate <-chan struct{}) error {
	if gate == nil {
		return nil
	}
	select {
	case <-gate:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Create implements payment.Store.
func (f *Faulty) Create(ctx context.Context, p payment.Payment) (payment.Payment, bool, error) {
	created := false
	stored, err := ask(ctx, f, "Create", func() (stored payment.Payment, err error) {
		stored, created, err = f.Ports.Create(ctx, p)
		return stored, err
	})
	return stored, created && err == nil, err
}

// Payment implements payment.Store.
func (f *Faulty) Payment(ctx context.Context, id payment.ID) (payment.Payment, error) {
	return ask(ctx, f, "Payment", func() (payment.Payment, error) { return f.Ports.Payment(ctx, id) })
}

// PaymentByHash implements payment.Store.
func (f *Faulty) PaymentByHash(ctx context.Context, hash chain.Hash) (payment.Payment, error) {
	return ask(ctx, f, "PaymentByHash", func() (payment.Payment, error) { return f.Ports.PaymentByHash(ctx, hash) })
}

// Reassign implements payment.Store.
func (f *Faulty) Reassign(ctx context.Context, p payment.Payment, old string) error {
	return f.do(ctx, "Reassign", func() error { return f.Ports.Reassign(ctx, p, old) })
}

// Discard implements payment.Store.
func (f *Faulty) Discard(ctx context.Context, p payment.Payment) error {
	return f.do(ctx, "Discard", func() error { return f.Ports.Discard(ctx, p) })
}

// Finish implements payment.Store.
func (f *Faulty) Finish(ctx context.Context, p payment.Payment) error {
	return f.do(ctx, "Finish", func() error { return f.Ports.Finish(ctx, p) })
}

// List implements payment.History.
func (f *Faulty) List(ctx context.Context, filter payment.Filter) ([]payment.Payment, bool, error) {
	more := false
	page, err := ask(ctx, f, "List", func() (page []payment.Payment, err error) {
		page, more, err = f.Ports.List(ctx, filter)
		return page, err
	})
	return page, more && err == nil, err
}

// Charge implements payment.DailyLimit.
func (f *Faulty) Charge(ctx context.Context, merchant, mode string, amount, limit token.Amount, now time.Time) error {
	return f.do(ctx, "Charge", func() error { return f.Ports.Charge(ctx, merchant, mode, amount, limit, now) })
}

// Refund implements payment.DailyLimit.
func (f *Faulty) Refund(ctx context.Context, merchant, mode string, amount token.Amount, now time.Time) error {
	return f.do(ctx, "Refund", func() error { return f.Ports.Refund(ctx, merchant, mode, amount, now) })
}

// Reserve implements wallet.Nonces.
func (f *Faulty) Reserve(ctx context.Context, r wallet.Request) (wallet.Wallet, error) {
	return ask(ctx, f, "Reserve", func() (wallet.Wallet, error) { return f.Ports.Reserve(ctx, r) })
}

// Release implements wallet.Nonces.
func (f *Faulty) Release(ctx context.Context, id payment.ID, pendingTx wallet.PendingTx) error {
	return f.do(ctx, "Release", func() error { return f.Ports.Release(ctx, id, pendingTx) })
}

// RaiseCeiling implements wallet.Nonces.
func (f *Faulty) RaiseCeiling(ctx context.Context, id wallet.ID, ceiling uint64) error {
	return f.do(ctx, "RaiseCeiling", func() error { return f.Ports.RaiseCeiling(ctx, id, ceiling) })
}
