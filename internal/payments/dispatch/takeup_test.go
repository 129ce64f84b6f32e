package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/dispatch"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/simulation/fakechain"
)

// unreserved are the calls whose failure leaves a payment stored without a nonce.
var unreserved = []string{"Reserve#1", "Payment#1"}

// left returns a process whose first request for asked ended in progress, because some calls
// failed. It made the payment at the process's time, and moves that on.
func left(t *testing.T, since time.Duration, calls ...string) *process {
	p := newProcess(t, breaks(calls...))
	if _, err := p.pay(); !errors.Is(err, dispatch.ErrInProgress) || p.stored().State != payment.Prepared {
		t.Fatalf("the first request: %v, stored is %+v", err, p.stored())
	}
	p.Pass(since)
	return p
}

// handlerLife is how long a payment may be at work in a handler.
const handlerLife = 35 * time.Second

// TestTakenUpUnderOtherSettings: a payment without a nonce is signed as it would be prepared
// now, once no other request can be making it.
func TestTakenUpUnderOtherSettings(t *testing.T) {
	for name, change := range map[string]func(p *process, s *settings.Settings){
		"Memo":          func(_ *process, s *settings.Settings) { s.MemoOff = true },
		"MaxFeeCapGwei": func(p *process, _ *settings.Settings) { p.d.Own.FeeLimit = token.Units(20) },
		"a chain's gas": func(p *process, _ *settings.Settings) { p.d.GasUnit = 1 << 40 }, // known to be paid in the token
	} {
		for _, daily := range []token.Amount{token.Units(5000), {}} {
			p := left(t, handlerLife-1, unreserved...)
			p.set(func(s *settings.Settings) { s.Daily = daily; change(p, s) })
			if _, err := p.pay(); !errors.Is(err, dispatch.ErrDuplicate) || len(p.sent) > 0 {
				t.Errorf("%s, while the first handler may live: %v, after %v", name, err, p.Calls)
			}
			p.Pass(1)
			result, err := p.pay()
			made := result.Payment
			want, _ := p.send("fresh")
			if err != nil || !result.Replayed || len(made.Tx.Data) != len(want.Payment.Tx.Data) || made.Tx.Fees != want.Payment.Tx.Fees ||
				p.stored().Tx.Fees != made.Tx.Fees || made.Tx.GasUnit != p.d.GasUnit || p.stored().Tx.GasUnit != p.d.GasUnit {
				t.Errorf("%s: %+v, %v, want %+v, after %v", name, made.Tx, err, want.Payment.Tx, p.Calls)
			}
		}
		p := left(t, handlerLife, unreserved...)
		p.set(func(s *settings.Settings) { change(p, s) })
		p.Script = breaks("Reassign#1")
		if _, err := p.pay(); !errors.Is(err, dispatch.ErrInProgress) || p.Did("Charge#2") || len(p.sent) > 0 {
			t.Errorf("%s, and it cannot be stored: %v, after %v", name, err, p.Calls)
		}
		p = left(t, handlerLife, "Sign#1")
		before := p.stored().Tx
		p.set(func(s *settings.Settings) { change(p, s) })
		if result, err := p.pay(); err != nil || result.Payment.Tx.Fees != before.Fees || p.Did("Reassign#1") {
			t.Errorf("%s, with a nonce: %+v, %v", name, result.Payment.Tx, err)
		}
		move := dispatch.Transfer{Key: "move", Mode: "test", From: first, To: asked.To, Amount: token.Units(50)}
		p = newProcess(t, breaks("Reserve#1"))
		_, err := p.d.Move(t.Context(), move)
		p.Pass(handlerLife)
		p.set(func(s *settings.Settings) { change(p, s) })
		if made, again := p.d.Move(t.Context(), move); !errors.Is(err, dispatch.ErrInProgress) || again != nil ||
			made.Tx.Fees.Cap == before.Fees.Cap && made.Memo() && made.Tx.GasUnit == before.GasUnit {
			t.Errorf("%s, of a transfer: %+v, %v, after %v", name, made.Tx, again, p.Calls)
		}
	}
}

// TestTakenUpByAnotherContract: a payment that would be made through another contract by now
// is given up. The next request makes it so.
func TestTakenUpByAnotherContract(t *testing.T) {
	r := batchOf(5, 6)
	begun := func() *process {
		p := newProcess(t, breaks(unreserved...))
		p.set(func(s *settings.Settings) { s.BatchContract = token.Address{0xbb} })
		if _, err := p.d.Send(t.Context(), r); !errors.Is(err, dispatch.ErrInProgress) {
			t.Fatal(err)
		}
		p.Pass(handlerLife)
		p.set(func(s *settings.Settings) { s.BatchContract = fakechain.Batcher })
		return p
	}
	p := begun()
	p.Script = script{"Discard#1": overtake}
	if result, err := p.d.Send(t.Context(), r); err != nil || result.Payment.State != payment.Committed || p.Did("Charge#2") {
		t.Errorf("another process makes it: %+v, %v, after %v", result, err, p.Calls)
	}
	p = begun()
	if _, err := p.d.Send(t.Context(), r); !errors.Is(err, dispatch.ErrUnavailable) || errors.Is(err, dispatch.ErrInProgress) ||
		len(p.sent) > 0 || p.Did("Charge#2") {
		t.Errorf("%v, after %v", err, p.Calls)
	}
	if result, err := p.d.Send(t.Context(), r); err != nil || result.Payment.Tx.To != fakechain.Batcher {
		t.Errorf("%+v, %v, after %v", result.Payment, err, p.Calls)
	}
}

// TestATransferThatFindsTheCeiling: a transfer that is given no nonce in any round takes nothing from its day.
func TestATransferThatFindsTheCeiling(t *testing.T) {
	s := script{}
	for n := range 20 { // others are faster, each time that the ceiling is raised
		s = s.With(fmt.Sprint("Reserve#", n+1), func(p *process) error {
			for i := 0; ; i++ {
				if _, err := p.Tables.Reserve(t.Context(),
					wallet.Need{Wallet: walletOf(first), Payment: payment.ID(fmt.Sprint(n, i)), At: p.Now()}); err != nil {
					p.mined++
					return nil
				}
			}
		})
	}
	p := newProcess(t, s)
	move := dispatch.Transfer{Key: "move", Mode: "test", From: first, To: asked.To, Amount: token.Units(50), Daily: token.Units(50)}
	for n := range 2 {
		if _, err := p.d.Move(t.Context(), move); !errors.Is(err, wallet.ErrCeiling) || p.Times["Reserve"] != 8*(n+1) {
			t.Errorf("%v, after %v", err, p.Calls)
		}
		p.Pass(handlerLife)
	}
}

// TestTransferTakenUpIsScreenedAnew: an operator's transfer that was stored before its
// recipient was listed is made only if it holds a nonce.
func TestTransferTakenUpIsScreenedAnew(t *testing.T) {
	order := dispatch.Transfer{Key: "move", Mode: "test", From: first, To: asked.To, Amount: token.Units(50)}
	for name, test := range map[string]struct {
		left   string // the call of the first order that fails
		before func(p *process)
		want   error
	}{
		"denied": {"Reserve#1", func(p *process) { p.Must(p.Tables.Deny(t.Context(), store.Denial{To: asked.To})) }, dispatch.ErrRecipient},
		"listed": {"Reserve#1", func(p *process) {
			p.listed = []token.Address{asked.To}
			p.set(func(s *settings.Settings) { s.Sanctions = token.Address{7} })
		}, dispatch.ErrRecipient},
		"the deny list cannot be read": {"Reserve#1", func(p *process) { p.Script = breaks("Rules#2") }, dispatch.ErrInProgress},
		"the sanctions list is silent": {"Reserve#1", func(p *process) { p.mute = p.asked + 1 }, dispatch.ErrInProgress},
		"neither":                      {"Reserve#1", func(*process) {}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProcess(t, breaks(test.left))
			if _, err := p.d.Move(t.Context(), order); !errors.Is(err, dispatch.ErrInProgress) {
				t.Fatal(err)
			}
			p.Pass(handlerLife)
			test.before(p)
			if _, err := p.d.Move(t.Context(), order); !errors.Is(err, test.want) || errors.Is(err, dispatch.ErrUnavailable) ||
				(test.want == nil) == p.holdsNothing() || p.Did("Create#2") {
				t.Errorf("%v, want %v, after %v", err, test.want, p.Calls)
			}
			if test.want == nil {
				p.Must(p.Tables.Deny(t.Context(), store.Denial{To: asked.To}))
				p.Pass(time.Minute)
				if made, err := p.d.Move(t.Context(), order); err != nil || made.State != payment.Prepared || p.holdsNothing() {
					t.Errorf("with a nonce: %+v, %v", made, err)
				}
			}
		})
	}
}

// TestARequestThatEndsGivesBackWhatItTook: a request that took a payment up, charged it, and tried
// for no reservation leaves the day as it was, however it ends.
func TestARequestThatEndsGivesBackWhatItTook(t *testing.T) {
	for name, calls := range map[string][]string{
		"its key is away, and the wallet cannot be read":                {"Ready#4", "Wallet#2"},
		"its key is away, and the payment cannot be discarded or moved": {"Ready#4", "Ready#5", "Discard#1"},
	} {
		p := left(t, handlerLife, unreserved...)
		p.Script = breaks(calls...)
		if _, err := p.pay(); !errors.Is(err, dispatch.ErrInProgress) || p.stored().State != payment.Prepared || !p.Did("Refund#1") {
			t.Errorf("%s: %v, after %v", name, err, p.Calls)
		}
		p.Must(p.Tables.Charge(t.Context(), day(4900, p.Now()))) // all but the first request's amount
	}
	p := left(t, handlerLife, unreserved...)
	ctx, cancel := context.WithDeadline(t.Context(), p.Now().Add(6*time.Second-1))
	defer cancel()
	if _, err := p.d.Send(ctx, asked); !errors.Is(err, dispatch.ErrDuplicate) || !p.Did("Refund#1") {
		t.Errorf("without time: %v, after %v", err, p.Calls)
	}
}

// TestANonceIsNoLicence: a request that takes a payment up because it holds a nonce makes it at that nonce only. In
// simulation seed 9302938 a key paid more than its maximum: the payment had been refused and begun anew.
func TestANonceIsNoLicence(t *testing.T) {
	anew := func(p *process) error {
		stored := p.stored()
		p.Must(p.Tables.Discard(t.Context(), stored))
		_, _, err := p.Tables.Create(t.Context(), payment.New(stored.ID, asked, stored.Token, "", p.Now()).AssignedTo(first, stored.Tx))
		return err
	}
	moved := func(p *process) error {
		stored := p.stored()
		return p.Tables.Reassign(t.Context(), stored.AssignedTo(second, stored.Tx), stored.Revision)
	}
	used := func(p *process) error { // check-receipts has used up the nonce
		stored := p.stored()
		p.Must(anew(p))
		p.Must(useUp(p))
		tx, err := p.Tables.PendingTx(t.Context(), walletOf(first), 0)
		p.Must(err)
		p.Must(p.Tables.Release(t.Context(), stored.ID, tx))
		return p.Tables.Repause(t.Context(), walletOf(first), "", "by hand")
	}
	tight := payment.KeyLimits{Maximum: token.Units(99)}
	daily := payment.KeyLimits{Daily: payment.DailyLimit{Key: "key", Amount: token.Units(99)}}
	for name, test := range map[string]struct {
		key    payment.KeyLimits
		script script
	}{
		"above its maximum, begun anew":   {tight, script{"Commit#1": anew}},
		"above its daily limit":           {daily, script{"Commit#1": anew}},
		"moved to another wallet":         {tight, script{"Commit#1": moved}},
		"begun anew, reservation unknown": {tight, breaks("Reserve#2").With("Payment#2", anew)},
		"its nonce is gone":               {tight, script{"Reserve#2": used}},
	} {
		p := left(t, handlerLife, "Sign#1")
		p.Script = test.script
		r := asked
		r.Key = test.key
		if result, err := p.d.Send(t.Context(), r); !errors.Is(err, dispatch.ErrDuplicate) || p.stored().State != payment.Prepared ||
			len(p.sent) > 0 || p.Did("Reserve#3") || p.Did("Charge#2") {
			t.Errorf("%s: %+v, %v, after %v", name, result, err, p.Calls)
		}
	}
}

// TestTakenUpFromAWalletWithoutARecord: such a wallet has given no nonce out, and another one pays.
func TestTakenUpFromAWalletWithoutARecord(t *testing.T) {
	p := newProcess(t, breaks(unreserved...))
	p.foreign = first
	p.open(second)
	if _, err := p.pay(); !errors.Is(err, dispatch.ErrInProgress) || p.stored().Wallet != first {
		t.Fatal(err)
	}
	p.Pass(handlerLife)
	if result, err := p.pay(); err != nil || result.Payment.Wallet != second || !p.Did("Charge#2") {
		t.Errorf("%+v, %v, after %v", result, err, p.Calls)
	}
}

// TestACrowdCostsNoRequests: a merchant that has used its cap of every wallet is refused for a
// second without a request to a node.
func TestACrowdCostsNoRequests(t *testing.T) {
	p := newProcess(t, script{})
	p.keys = p.keys[:1]
	p.set(func(s *settings.Settings) { s.MerchantCap = 25 * 1 })
	must.Get(p.send("first"))(t)
	for n, step := range []struct {
		after time.Duration
		asks  bool
	}{{0, true}, {time.Second - 1, false}, {1, true}, {-time.Second, true}} {
		p.Pass(step.after)
		before := p.Times["Estimate"]
		if _, err := p.send(fmt.Sprint(n)); !errors.Is(err, dispatch.ErrTooMany) || p.Times["Estimate"] > before != step.asks {
			t.Errorf("request %d: %v, asked a node %t", n, err, p.Times["Estimate"] > before)
		}
	}
	stranger := asked
	stranger.IdempotencyKey, stranger.Key.Book, p.d.Book = "stranger", true, &book{}
	if _, err := p.d.Send(t.Context(), stranger); !errors.Is(err, dispatch.ErrNotInBook) {
		t.Errorf("a refusal that waiting does not end: %v", err)
	}
}

// TestADuplicateWaits a moment for the request that is making the payment, and answers as the payment is then.
func TestADuplicateWaits(t *testing.T) {
	if dispatch.New(stack.Config{}, dispatch.Parts{}).After == nil {
		t.Error("it has nothing to wait by")
	}
	reserve := func(p *process) error {
		stored := p.stored()
		return must.Err(p.Tables.Reserve(context.Background(), store.NeedOf(stored, p.Now())))
	}
	for name, test := range map[string]struct {
		meanwhile func(p *process) error
		want      error
		duplicate bool
	}{
		"it is committed": {overtake, nil, false},
		"it has a nonce":  {reserve, nil, false},
		"it is as it was": {func(*process) error { return nil }, dispatch.ErrInProgress, true},
		"it is refused": {func(p *process) error { return p.Tables.Discard(context.Background(), p.stored()) },
			dispatch.ErrInProgress, true},
		"its key is used for another one": {func(p *process) error { _ = replace(p); return nil }, dispatch.ErrKeyReused, false},
	} {
		p := left(t, 0, unreserved...)
		p.set(func(s *settings.Settings) { s.Daily = token.Amount{} })
		if result, err := p.pay(); err != nil || !result.Replayed || p.Did("After 300ms#1") {
			t.Errorf("without a limit that it may be charged to: %+v, %v, after %v", result, err, p.Calls)
		}
		p = left(t, handlerLife-1, unreserved...)
		p.Script = script{"After 300ms#1": test.meanwhile}
		result, err := p.pay()
		if !errors.Is(err, test.want) || errors.Is(err, dispatch.ErrDuplicate) != test.duplicate || result.Replayed != (err == nil) ||
			p.Did("After 300ms#2") || p.Did("Charge#2") {
			t.Errorf("%s: %+v, %v, after %v", name, result, err, p.Calls)
		}
	}
}
