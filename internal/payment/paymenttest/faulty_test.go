package paymenttest_test

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"testing/synctest"

	"remit/internal/payment"
	"remit/internal/payment/paymenttest"
	"remit/internal/token"
	"remit/internal/wallet"
)

// TestFaultyAsksForEveryCall calls every method of every port on a wrapper of
// nothing: one that did not ask first would panic.
func TestFaultyAsksForEveryCall(t *testing.T) {
	ports := reflect.TypeFor[paymenttest.Ports]()
	for m := range ports.Methods() {
		var asked []string
		faulty := &paymenttest.Faulty{Decide: func(op string) paymenttest.Outcome {
			asked = append(asked, op)
			return paymenttest.Fail()
		}}
		method := reflect.ValueOf(faulty).MethodByName(m.Name)
		args := []reflect.Value{reflect.ValueOf(t.Context())}
		for i := 1; i < method.Type().NumIn(); i++ {
			args = append(args, reflect.Zero(method.Type().In(i)))
		}
		results := method.Call(args)
		err, _ := results[len(results)-1].Interface().(error)
		if len(asked) != 1 || asked[0] != m.Name || !errors.Is(err, paymenttest.ErrInjected) {
			t.Errorf("%s: asked for %v, error = %v", m.Name, asked, err)
		}
	}
}

var theWallet = wallet.Wallet{ID: wallet.ID{ChainID: 1}, Ceiling: 9, Token: token.Units(9), Gas: token.Units(9)}

// next returns a store with one wallet, whose next call becomes of what is
// decided, and what that store has.
func next(t *testing.T, o paymenttest.Outcome) (*paymenttest.Faulty, func() wallet.Wallet) {
	t.Helper()
	store := paymenttest.NewStore()
	if err := store.Open(t.Context(), theWallet); err != nil {
		t.Fatal(err)
	}
	held := func() wallet.Wallet {
		w, err := store.Wallet(t.Context(), theWallet.ID)
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	return &paymenttest.Faulty{Ports: store, Decide: func(string) paymenttest.Outcome { return o }}, held
}

func reservation(ctx context.Context, s wallet.Store) (wallet.Wallet, error) {
	return s.Reserve(ctx, wallet.Request{Wallet: theWallet.ID, Payment: "pay_1"})
}

func TestOutcomes(t *testing.T) {
	for _, row := range []struct {
		sentence string
		outcome  paymenttest.Outcome
		answered bool
		applied  bool
	}{
		{"a call that is let through is applied and answered", paymenttest.Outcome{}, true, true},
		{"a failed call is not applied", paymenttest.Fail(), false, false},
		{"a lost answer is of a call that was applied", paymenttest.Lose(), false, true},
	} {
		faulty, held := next(t, row.outcome)
		w, err := reservation(t.Context(), faulty)
		if answered := err == nil && w.NextNonce == 1; answered != row.answered || !answered && w.Reservations != nil {
			t.Errorf("%s: wallet %v, error %v", row.sentence, w, err)
		}
		if applied := held().NextNonce == 1; applied != row.applied {
			t.Errorf("%s: applied = %v", row.sentence, applied)
		}
	}
}

func TestCallsWait(t *testing.T) {
	for _, row := range []struct {
		sentence string
		outcome  func(<-chan struct{}) paymenttest.Outcome
		early    bool // applied before the gate opens
	}{
		{"a held call is applied when it is let go", paymenttest.Hold, false},
		{"a stalled call is applied and not answered until it is let go", paymenttest.Stall, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			gate := make(chan struct{})
			faulty, held := next(t, row.outcome(gate))
			done := make(chan error, 2)
			gone, leave := context.WithCancel(t.Context())
			go func() { _, err := reservation(gone, faulty); done <- err }()
			synctest.Wait()
			if applied := held().NextNonce == 1; applied != row.early {
				t.Errorf("%s: applied early = %v", row.sentence, applied)
			}
			leave()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Errorf("%s: a caller who leaves gets %v", row.sentence, err)
			}
			go func() { _, err := reservation(t.Context(), faulty); done <- err }()
			synctest.Wait()
			close(gate)
			if err := <-done; err != nil || held().NextNonce != 1 {
				t.Errorf("%s: error %v, wallet %v", row.sentence, err, held())
			}
		})
	}
}

// BenchmarkPayment is the store's share of a payment's life: put, reservation, commit,
// release, finish, delete.
func BenchmarkPayment(b *testing.B) {
	s, ctx := paymenttest.NewStore(), b.Context()
	w := theWallet
	w.Ceiling, w.Token, w.Gas = 1<<60, wallet.Spendable(token.MaxAmount()), wallet.Spendable(token.MaxAmount())
	if err := s.Open(ctx, w); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := live(ctx, s, w.ID); err != nil {
			b.Fatal(err)
		}
	}
}

func live(ctx context.Context, s *paymenttest.Store, id wallet.ID) error {
	w, err := s.Wallet(ctx, id)
	if err != nil {
		return err
	}
	p, err := drafts(w.NextNonce)
	if err != nil {
		return err
	}
	if _, _, err := s.Create(ctx, p); err != nil {
		return err
	}
	w, err = s.Reserve(ctx, wallet.Request{Wallet: id, Payment: p.ID, Token: p.Amount, Gas: token.Units(1), At: p.CreatedAt})
	if err != nil {
		return err
	}
	p, err = p.Commit(signed(p, w.Reservations[p.ID].Nonce), p.CreatedAt)
	if err != nil {
		return err
	}
	if err := s.Commit(ctx, p); err != nil {
		return err
	}
	pendingTx := wallet.PendingTxOf(p)
	if err := s.Release(ctx, p.ID, pendingTx); err != nil {
		return err
	}
	p.State, p.Event = payment.Confirmed, &payment.Event{}
	if err := s.Finish(ctx, p); err != nil {
		return err
	}
	return s.DeletePendingTx(ctx, id, pendingTx.Nonce)
}
