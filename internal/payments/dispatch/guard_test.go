package dispatch_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/dispatch"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/simulation/fakechain"
)

const guardTime = 24 * time.Hour

// guarded sends asked under another Idempotency-Key with a guarded key, or with other changes.
func (p *process) guarded(key string, changes ...func(*payment.Request)) (payment.Payment, error) {
	r := asked
	r.IdempotencyKey, r.Key.Guard = key, guardTime
	for _, change := range changes {
		change(&r)
	}
	result, err := p.d.Send(p.T.Context(), r)
	return result.Payment, err
}

func from(h chain.Hash) func(*payment.Request) {
	return func(r *payment.Request) { r.DifferentFrom = h }
}

// ends makes the payment of a key final.
func (p *process) ends(key string, code payment.FailureCode) {
	p.T.Helper()
	made := must.Get(p.Tables.Payment(context.Background(), payment.KeyID(asked.Merchant, asked.Mode, key)))(p.T)
	end := must.Get(made.Confirm(chain.Receipt{Tx: made.TxHash, Block: 9}, p.Now()))(p.T)
	if code != "" {
		end = must.Get(made.Fail(code, chain.Receipt{Tx: made.TxHash, Block: 9}, p.Now()))(p.T)
	}
	p.Must(p.Tables.Finish(context.Background(), end))
}

// TestGuard: within a guarded key's time, the merchant's payment of an amount to a recipient is made once, unless the
// request names the newest.
func TestGuard(t *testing.T) {
	p := newProcess(t, nil)
	p.set(func(s *settings.Settings) { s.NonceWindow, s.Daily = 64, token.Amount{} })
	refused := func(what string, want chain.Hash, got payment.Payment, err error) {
		t.Helper()
		if similar, ok := errors.AsType[*dispatch.SimilarError](err); !ok || similar.TxHash != want {
			t.Errorf("%s: %v, %v, want the hash %s", what, got, err, want)
		}
	}
	paid := func(what string, got payment.Payment, err error) chain.Hash {
		t.Helper()
		if err != nil || got.State == payment.Prepared {
			t.Errorf("%s: %v, %v", what, got, err)
		}
		return got.TxHash
	}
	again := func(key string, changes ...func(*payment.Request)) (payment.Payment, error) {
		return p.guarded(key, changes...)
	}
	made, err := again("a")
	first := paid("the first", made, err)
	made, err = again("a")
	paid("its replay", made, err)
	made, err = again("b")
	refused("another key", first, made, err)
	made, err = again("b", from(chain.Hash{1}))
	refused("it names another", first, made, err)
	made, err = again("c", func(r *payment.Request) { r.Key.Guard = 0 })
	paid("a key without a guard", made, err)
	for what, change := range map[string]func(*payment.Request){
		"amount":    func(r *payment.Request) { r.Amount = token.Units(101) },
		"recipient": func(r *payment.Request) { r.To = fakechain.Payee(7) },
		"merchant":  func(r *payment.Request) { r.Merchant = "mer_2" },
		"nothing similar was paid: the hash is ignored": func(r *payment.Request) { r.Amount, r.DifferentFrom = token.Units(102), first },
	} {
		made, err = again("d"+what, change)
		paid("another "+what, made, err)
	}
	made, err = again("e", from(first))
	second := paid("it names the newest", made, err)
	made, err = again("f", from(first))
	refused("a second that names the same", second, made, err)
	made, err = again("a")
	paid("a replay of the first, beside the second", made, err)
	p.ends("e", payment.ExecutionReverted)
	made, err = again("f")
	refused("the newest has failed", first, made, err)
	p.ends("a", payment.AmountDiffers)
	made, err = again("f")
	refused("the one before moved coins", first, made, err)
	p.Pass(guardTime + time.Millisecond)
	made, err = again("f", func(r *payment.Request) { r.Key.Guard = guardTime + time.Hour })
	refused("a key with a longer guard", first, made, err)
	made, err = again("f")
	paid("the time is over", made, err)
	p.ends("f", payment.NonceConsumed)
	p.Pass(-guardTime) // this process's clock is a day behind
	made, err = again("g")
	refused("by a clock that is behind", first, made, err)
	made, err = again("g", from(first))
	if paid("by a clock that is behind", made, err); made.CreatedAt.Before(must.Get(again("a"))(t).CreatedAt) {
		t.Errorf("the newest payment has the time %s", made.CreatedAt)
	}
}

// TestGuardOfAPaymentThatIsNotSigned: it holds up similar ones, until a dead request has left it without a nonce.
func TestGuardOfAPaymentThatIsNotSigned(t *testing.T) {
	begin := func(since time.Duration, calls ...string) *process {
		p := newProcess(t, breaks(calls...))
		if _, err := p.guarded("k"); !errors.Is(err, dispatch.ErrInProgress) || p.stored().State != payment.Prepared {
			t.Fatalf("the first request: %v, stored is %+v", err, p.stored())
		}
		p.Pass(since)
		p.Script = nil
		return p
	}
	pending := dispatch.ErrSimilarPending
	lost := func(call string) func(*process) { return func(p *process) { p.Script = breaks(call) } }
	for name, test := range map[string]struct {
		p    *process
		does func(p *process)
		want error
	}{
		"its request may live":         {begin(handlerLife-time.Millisecond, unreserved...), nil, pending},
		"its request is dead":          {begin(handlerLife, unreserved...), nil, nil},
		"it has a nonce":               {begin(time.Hour, "Sign#1"), nil, pending},
		"a second later than its time": {begin(guardTime+time.Second, "Sign#1"), nil, pending},
		"its wallet cannot be read":    {begin(handlerLife, unreserved...), lost("Wallet#1"), dispatch.ErrUnavailable},
		"its discard is unknown":       {begin(handlerLife, unreserved...), lost("Discard#1"), dispatch.ErrUnavailable},
		"its guard cannot be read":     {begin(handlerLife, unreserved...), lost("Guard#2"), dispatch.ErrUnavailable},
		"it cannot be read":            {begin(handlerLife, unreserved...), lost("Payment#2"), dispatch.ErrUnavailable},
		"remit recover holds its wallet": {begin(handlerLife, unreserved...), func(p *process) {
			p.Must(p.Tables.Pause(t.Context(), walletOf(first), "chain ahead"))
		}, pending},
		"it is signed before the discard": {begin(handlerLife, unreserved...), func(p *process) {
			p.Script = script{"Discard#1": func(p *process) error { _, err := p.pay(); return err }}
		}, pending},
		"another is created meanwhile": {begin(handlerLife, unreserved...), func(p *process) {
			p.Script = script{"CreateGuarded#2": func(p *process) error { _, err := p.guarded("l"); return err }}
		}, pending},
	} {
		if test.does != nil {
			test.does(test.p)
		}
		made, err := test.p.guarded("other")
		if !errors.Is(err, test.want) || (err == nil) != (made.State == payment.Committed) ||
			test.want == pending && errors.Is(err, dispatch.ErrUnavailable) {
			t.Errorf("%s: %v, %v, after %v", name, made.State, err, test.p.Calls)
		}
		if stored := test.p.stored().State; (stored == "") != (err == nil) && !strings.Contains(name, "meanwhile") {
			t.Errorf("%s: the first is %q", name, stored)
		}
		if err == nil {
			if _, err := test.p.guarded("k"); !errors.As(err, new(*dispatch.SimilarError)) {
				t.Errorf("%s: asked for again, it is %v", name, err)
			}
		}
	}
}

// TestGuardTakesUp: a guarded key's request takes up the payment that its guard names, and no payment that none does.
func TestGuardTakesUp(t *testing.T) {
	p := newProcess(t, breaks(unreserved...))
	_, _ = p.guarded("k")
	p.Pass(handlerLife)
	if _, err := p.guarded("k"); err != nil || p.stored().State != payment.Committed {
		t.Errorf("its own: %v", err)
	}
	p = left(t, handlerLife, unreserved...)
	if _, err := p.guarded("k"); !errors.Is(err, dispatch.ErrDuplicate) || p.stored().State != "" {
		t.Errorf("of a key without a guard: %v, stored as %q", err, p.stored().State)
	}
	if _, err := p.guarded("k"); err != nil || !p.stored().Guarded {
		t.Errorf("the next request: %v, stored is %+v", err, p.stored())
	}
	batch, _ := asked.Batch([]payment.Entry{{To: asked.To, Amount: asked.Amount}})
	batch.Key.Guard, batch.IdempotencyKey = guardTime, "batch"
	if _, err := p.d.Send(t.Context(), batch); !errors.Is(err, dispatch.ErrGuardedBatch) {
		t.Errorf("a batch: %v", err)
	}
	batch.Key.Guard = 0
	must.Get(p.d.Send(t.Context(), batch))(t)
	batch.Key.Guard = guardTime
	if made, err := p.d.Send(t.Context(), batch); err != nil || !made.Replayed {
		t.Errorf("a batch that is paid: %v", err)
	}
}
