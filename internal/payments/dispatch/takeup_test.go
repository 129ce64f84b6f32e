package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/dispatch"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/porttest"
	"github.com/remit-payouts/remit/internal/proof/simulation/fakechain"
	"github.com/remit-payouts/remit/internal/sandbox/memory"
)

// unreserved are the calls whose failure leaves a payment stored without a nonce.
var unreserved = []string{"Reserve#1", "Payment#1"}

const (
	// handlerLife is how long a payment may be at work in a handler.
	handlerLife = 35 * time.Second
	guardTime   = 24 * time.Hour
)

// left returns a process whose first request for asked ended in progress, because some calls
// failed. It made the payment at the process's time, and moves that on.
func left(t *testing.T, since time.Duration, calls ...string) *process {
	return leftBy(t, nil, since, calls...)
}

// leftBy is left after a changed request.
func leftBy(t *testing.T, changes []func(*payment.Request), since time.Duration, calls ...string) *process {
	p := newProcess(t, breaks(calls...))
	if p.ask("k", changes...).is("the first request", dispatch.ErrInProgress); p.stored().State != payment.Prepared {
		t.Fatalf("stored is %+v", p.stored())
	}
	p.Pass(since)
	p.Script = nil
	return p
}

// byGuard are the changes of a request by a guarded key.
var byGuard = []func(*payment.Request){guarded}

func tight(r *payment.Request)   { r.Key.Maximum = unit(99) }
func guarded(r *payment.Request) { r.Key.Guard = guardTime }

func from(h chain.Hash) func(*payment.Request) {
	return func(r *payment.Request) { r.DifferentFrom = h }
}

// until gives a request a NotAfter some time from now.
func (p *process) until(ahead time.Duration) func(*payment.Request) {
	return func(r *payment.Request) { r.NotAfter = p.Now().Add(ahead) }
}

// TestTakenUpUnderOtherSettings: a payment without a nonce is signed anew once no other request can be making it.
func TestTakenUpUnderOtherSettings(t *testing.T) {
	for name, change := range map[string]func(p *process, s *settings.Settings){
		"Memo":          func(_ *process, s *settings.Settings) { s.MemoOff = true },
		"MaxFeeCapGwei": func(p *process, _ *settings.Settings) { p.d.Own.FeeLimit = unit(20) },
		"a chain's gas": func(p *process, _ *settings.Settings) { p.d.GasUnit = 1 << 40 },
	} {
		for _, daily := range []token.Amount{unit(5000), {}} {
			p := left(t, handlerLife-1, unreserved...)
			p.set(func(s *settings.Settings) { s.Daily = daily; change(p, s) })
			p.ask("k").is(name+", while the first handler may live", dispatch.ErrDuplicate).without("Send#1")
			p.Pass(1)
			made, want := p.ask("k").is(name, nil).Payment, p.ask("fresh").Payment.Tx
			if len(made.Tx.Data) != len(want.Data) || made.Tx.Fees != want.Fees || p.stored().Tx.Fees != want.Fees ||
				made.Tx.GasUnit != p.d.GasUnit || p.stored().Tx.GasUnit != p.d.GasUnit {
				t.Errorf("%s: %+v, want %+v", name, made.Tx, want)
			}
		}
		p := left(t, handlerLife, unreserved...)
		p.set(func(s *settings.Settings) { change(p, s) })
		p.Script = breaks("Reassign#1")
		p.ask("k").is(name+", and it cannot be stored", dispatch.ErrInProgress).without("Charge#2", "Send#1")
		p = left(t, handlerLife, "Sign#1")
		before := p.stored().Tx
		p.set(func(s *settings.Settings) { change(p, s) })
		if made := p.ask("k").is(name+", held", nil).without("Reassign#1"); made.Payment.Tx.Fees != before.Fees {
			t.Errorf("%s, with a nonce: %+v", name, made.Payment.Tx)
		}
		p = newProcess(t, breaks("Reserve#1"))
		p.move(nil).is(name+", of a transfer", dispatch.ErrInProgress)
		p.Pass(handlerLife)
		p.set(func(s *settings.Settings) { change(p, s) })
		if made := p.move(nil).is(name+", of a transfer", nil).Payment; made.Tx.Fees.Cap == before.Fees.Cap && made.Memo() &&
			made.Tx.GasUnit == before.GasUnit {
			t.Errorf("%s, of a transfer: %+v", name, made.Tx)
		}
	}
}

// TestTakenUpByAnotherContract: a payment that would be made through another contract by now
// is given up. The next request makes it so.
func TestTakenUpByAnotherContract(t *testing.T) {
	for _, meanwhile := range []func(*process) error{overtake, func(*process) error { return nil }} {
		p := newProcess(t, breaks(unreserved...))
		p.set(func(s *settings.Settings) { s.BatchContract = token.Address{0xbb} })
		p.request(batchOf(5, 6)).is("begun", dispatch.ErrInProgress)
		p.Pass(handlerLife)
		p.set(func(s *settings.Settings) { s.BatchContract = fakechain.Batcher })
		p.Script = script{"Discard#1": meanwhile}
		if a := p.request(batchOf(5, 6)).without("Charge#2"); a.err == nil {
			a.is("another process makes it", nil)
			continue
		} else if a.is("of another contract", dispatch.ErrUnavailable).without("Send#1"); p.stored().ID != "" {
			t.Errorf("stored is %+v", p.stored())
		}
		if made := p.request(batchOf(5, 6)).is("the next request", nil).Payment; made.Tx.To != fakechain.Batcher {
			t.Errorf("paid by %s", made.Tx.To)
		}
	}
}

// TestTransferTakenUpIsScreenedAnew: an operator's transfer that was stored before its
// recipient was listed is made only if it holds a nonce.
func TestTransferTakenUpIsScreenedAnew(t *testing.T) {
	deny := func(p *process) { p.Must(p.Tables.Deny(t.Context(), store.Denial{To: asked.To})) }
	for name, test := range map[string]struct {
		before func(p *process)
		want   error
	}{
		"denied": {deny, dispatch.ErrRecipient},
		"listed": {func(p *process) {
			p.listed = []token.Address{asked.To}
			p.set(func(s *settings.Settings) { s.Sanctions = token.Address{7} })
		}, dispatch.ErrRecipient},
		"the deny list cannot be read": {func(p *process) { p.Script = breaks("Rules#2") }, dispatch.ErrInProgress},
		"the sanctions list is silent": {func(p *process) { p.mute = p.asked + 1 }, dispatch.ErrInProgress},
		"neither":                      {func(*process) {}, nil},
	} {
		p := newProcess(t, breaks("Reserve#1"))
		p.move(nil).is(name, dispatch.ErrInProgress)
		p.Pass(handlerLife)
		test.before(p)
		if p.move(nil).is(name, test.want).without("Create#2"); (test.want == nil) == (p.nonces() == 0) {
			t.Errorf("%s: it reserved otherwise, after %v", name, p.Calls)
		}
		if test.want == nil {
			deny(p)
			p.Pass(time.Minute)
			p.move(nil).is("denied, with a nonce", nil)
		}
	}
}

// TestARequestThatEndsGivesBackWhatItTook: a request that took a payment up, charged it, and tried
// for no reservation leaves the day as it was, however it ends.
func TestARequestThatEndsGivesBackWhatItTook(t *testing.T) {
	p := left(t, handlerLife, unreserved...)
	p.Script = breaks("Ready#4", "Ready#5", "Discard#1") // its key is away, and it cannot be discarded or moved
	p.ask("k").is("its key is away", dispatch.ErrInProgress)
	p.Must(p.Tables.Charge(t.Context(), day(4900, p.Now()))) // all but the first request's amount
	p = left(t, handlerLife, unreserved...)
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
		return create(p, payment.New(stored.ID, asked, stored.Token, "", p.Now()).AssignedTo(first, stored.Tx))
	}
	for name, test := range map[string]script{
		"begun anew": {"Commit#1": anew},
		"moved to another wallet": {"Commit#1": func(p *process) error {
			stored := p.stored()
			return p.Tables.Reassign(t.Context(), stored.AssignedTo(second, stored.Tx), stored.Revision)
		}},
		"begun anew, reservation unknown": breaks("Reserve#2").With("Payment#2", anew),
		"its nonce is gone": {"Reserve#2": func(p *process) error {
			p.Must(anew(p))
			p.Must(release(p))
			return p.Tables.Repause(t.Context(), walletOf(first), "", "by hand")
		}},
	} {
		p := left(t, handlerLife, "Sign#1")
		p.Script = test
		p.ask("k", tight).is(name, dispatch.ErrDuplicate).without("Send#1", "Reserve#3", "Charge#2")
		if p.stored().State != payment.Prepared {
			t.Errorf("%s: it is %s", name, p.stored().State)
		}
	}
	p := left(t, handlerLife, "Sign#1")
	p.Must(p.Tables.Pause(t.Context(), walletOf(first), wallet.Suspicion+": restored"))
	p.ask("k").is("of a wallet that has lost payments", dispatch.ErrWaiting).without("Sign#2")
	p = left(t, handlerLife, unreserved...)
	p.set(func(s *settings.Settings) { s.Daily = token.Amount{} })
	p.Script = script{"Reserve#2": pause(first)}
	p.ask("k").is("without one, it moves on", nil).by(second)
}

// release is a run that uses up the first wallet's first nonce, and releases the payment that held it.
func release(p *process) error {
	p.Must(useUp(p))
	tx, err := p.Tables.PendingTx(context.Background(), walletOf(first), 0)
	p.Must(err)
	return p.Tables.Release(context.Background(), p.stored().ID, tx)
}

// TestACrowdCostsNoRequests: merchants at their cap of every wallet are refused for a second, without a request.
func TestACrowdCostsNoRequests(t *testing.T) {
	p := newProcess(t, script{})
	p.keys = p.keys[:1]
	p.set(func(s *settings.Settings) { s.MerchantCap = 25 * 1 })
	other := func(r *payment.Request) { r.Merchant = "mer_2" }
	p.ask("first").is("first", nil)
	p.ask("first", other).is("another merchant's", nil)
	for n, step := range []struct {
		after time.Duration
		asks  bool
	}{{0, true}, {time.Second - 1, false}, {1, true}, {-time.Second, true}} {
		p.Pass(step.after)
		before := p.Times["Estimate"]
		p.ask(fmt.Sprint(n)).is("beyond the cap", dispatch.ErrTooMany)
		if p.ask(fmt.Sprint(n), other).is("beyond its cap", dispatch.ErrTooMany); p.Times["Estimate"] > before != step.asks {
			t.Errorf("request %d: asked a node %t", n, p.Times["Estimate"] > before)
		}
	}
	p.d.Book = &book{}
	p.ask("stranger", func(r *payment.Request) { r.Key.Book = true }).is("a refusal that waiting does not end", dispatch.ErrNotInBook)
}

// TestADuplicateWaits a moment for the request that is making the payment, and answers as the payment is then.
func TestADuplicateWaits(t *testing.T) {
	if dispatch.New(stack.Config{}, dispatch.Parts{}).After == nil {
		t.Error("it has nothing to wait by")
	}
	for name, test := range map[string]struct {
		meanwhile func(p *process) error
		want      error
	}{
		"it is committed": {overtake, nil},
		"it has a nonce": {func(p *process) error {
			return must.Err(p.Tables.Reserve(t.Context(), store.NeedOf(p.stored(), p.Now())))
		}, nil},
		"it is as it was":       {func(*process) error { return nil }, dispatch.ErrDuplicate},
		"it is refused":         {func(p *process) error { return p.Tables.Discard(t.Context(), p.stored()) }, dispatch.ErrDuplicate},
		"its key is used again": {func(p *process) error { _ = replace(p); return nil }, dispatch.ErrKeyReused},
	} {
		p := left(t, 0, unreserved...)
		p.set(func(s *settings.Settings) { s.Daily = token.Amount{} })
		if a := p.ask("k").is("without a limit that it may be charged to", nil).without("After 300ms#1"); !a.Replayed {
			t.Error("it is no replay")
		}
		p = left(t, handlerLife-1, unreserved...)
		p.Script = script{"After 300ms#1": test.meanwhile}
		if a := p.ask("k").is(name, test.want).without("After 300ms#2", "Charge#2"); a.Replayed != (a.err == nil) {
			t.Errorf("%s: it is a replay: %t", name, a.Replayed)
		}
	}
}

// TestNotAfter: a request whose time has passed begins nothing. It answers with a payment that is
// signed or has a nonce, and discards one that a dead request left, before any limit is judged. So does a closed rail.
func TestNotAfter(t *testing.T) {
	late := func(p *process) error { p.Pass(2 * time.Second); return nil }
	with := func(p *process, s script) *process { p.Script = s; return p }
	closed := func(p *process) *process { p.set(func(s *settings.Settings) { s.Closed = true }); return p }
	unlimited := left(t, time.Second, unreserved...)
	unlimited.set(func(s *settings.Settings) { s.Daily = token.Amount{} }) // nothing is asked before
	for name, test := range map[string]struct {
		p     *process
		ahead time.Duration
		want  error
		state payment.State // stored afterwards; "": none
	}{
		"the last second":                 {newProcess(t, nil), 0, nil, payment.Committed},
		"a second later":                  {newProcess(t, nil), -time.Second, dispatch.ErrExpired, ""},
		"300 s ahead":                     {newProcess(t, nil), dispatch.MaxNotAfter, nil, payment.Committed},
		"301 s ahead":                     {newProcess(t, nil), dispatch.MaxNotAfter + time.Second, dispatch.ErrNotAfter, ""},
		"it passes before it is reserved": {newProcess(t, script{"Create#1": late}), time.Second, dispatch.ErrExpired, ""},
		"a dead request left it":          {left(t, handlerLife, unreserved...), -time.Second, dispatch.ErrExpired, ""},
		"closed":                          {closed(left(t, handlerLife, unreserved...)), 0, dispatch.ErrAssetClosed, ""},
		"closed, and it has a nonce":      {closed(left(t, handlerLife, "Sign#1")), 0, nil, payment.Committed},
		"another may be making it": {left(t, handlerLife-time.Second, unreserved...), -time.Second,
			dispatch.ErrDuplicate, payment.Prepared},
		"it has a nonce":                     {left(t, 0, "Sign#1"), -time.Second, nil, payment.Committed},
		"it has a nonce, and its time comes": {left(t, handlerLife, "Sign#1"), 0, nil, payment.Committed},
		"a run uses its nonce up": {with(left(t, handlerLife, "Sign#1"), script{"Ready#3": release}), -time.Second,
			dispatch.ErrDuplicate, payment.Prepared},
		"its time passes while it is taken up": {with(unlimited, script{"Ready#4": late}), time.Second,
			dispatch.ErrDuplicate, payment.Prepared},
	} {
		reserved := test.p.Times["Reserve"]
		a := test.p.ask("k", test.p.until(test.ahead)).is(name, test.want)
		if test.p.stored().State != test.state || a.err != nil && test.p.Times["Reserve"] > reserved || len(test.p.Script) > 0 {
			t.Errorf("%s: it is stored as %q, after %v", name, test.p.stored().State, test.p.Calls)
		}
	}
	p := newProcess(t, nil)
	p.ask("k", p.until(-time.Second), tight).is("above the maximum", dispatch.ErrExpired)
	p = left(t, handlerLife, unreserved...)
	p.ask("k", p.until(-time.Second), func(r *payment.Request) { r.To = fakechain.Payee(3) }).is("other content", dispatch.ErrKeyReused)
	if p.stored().State != payment.Prepared {
		t.Errorf("other content: it is stored as %q", p.stored().State)
	}
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
	refused := func(what string, want chain.Hash, a answer) {
		t.Helper()
		if similar, ok := errors.AsType[*dispatch.SimilarError](a.err); !ok || similar.TxHash != want {
			t.Errorf("%s: %v, %v, want the hash %s", what, a.Payment, a.err, want)
		}
	}
	one := p.ask("a", guarded).is("the first", nil).Payment
	p.ask("a", guarded).is("its replay", nil)
	refused("another key", one.TxHash, p.ask("b", guarded))
	refused("it names another", one.TxHash, p.ask("b", guarded, from(chain.Hash{1})))
	p.ask("c").is("a key without a guard", nil)
	for what, change := range map[string]func(*payment.Request){
		"amount":    func(r *payment.Request) { r.Amount = unit(101) },
		"recipient": func(r *payment.Request) { r.To = fakechain.Payee(7) },
		"merchant":  func(r *payment.Request) { r.Merchant = "mer_2" },
		"amount: the hash is ignored": func(r *payment.Request) {
			r.Amount, r.DifferentFrom = unit(102), one.TxHash
		},
	} {
		p.ask("d"+what, guarded, change).is("another "+what, nil)
	}
	two := p.ask("e", guarded, from(one.TxHash)).is("it names the newest", nil).Payment
	refused("a second that names the same", two.TxHash, p.ask("f", guarded, from(one.TxHash)))
	p.ask("a", guarded).is("a replay of the first, beside the second", nil)
	p.ends("e", payment.ExecutionReverted)
	refused("the newest has failed", one.TxHash, p.ask("f", guarded))
	p.ends("a", payment.AmountDiffers)
	refused("the one before moved coins", one.TxHash, p.ask("f", guarded))
	p.Pass(guardTime)
	refused("the last moment", one.TxHash, p.ask("f", guarded))
	p.Pass(time.Millisecond)
	refused("a key with a longer guard", one.TxHash, p.ask("f", func(r *payment.Request) { r.Key.Guard = guardTime + time.Hour }))
	p.ask("f", guarded).is("the time is over", nil)
	for n, names := range []int{3, 2} { // the older ones, until a newer one has moved coins
		key := fmt.Sprint(n)
		p.Pass(guardTime + time.Second)
		p.ask(key, guarded).is("after another guard's time", nil)
		if g := must.Get(p.Tables.Guard(t.Context(), asked.GuardID(1, porttest.Rail.Token.Contract)))(t); len(g.Payments) != names {
			t.Errorf("the guard names %v, want %d", g.Payments, names)
		}
		p.ends(key, payment.AmountDiffers)
	}
	p = start(t, memory.NewPayments(), nil)
	p.Pass(time.Minute)
	one = p.ask("a", guarded).is("by a clock that is ahead", nil).Payment
	p = start(t, p.Tables, down("Reserve"))
	if p.ask("k", guarded, from(one.TxHash)).is("by another", dispatch.ErrInProgress); p.stored().CreatedAt.Before(one.CreatedAt) {
		t.Errorf("it was made at %v, and the one before at %v", p.stored().CreatedAt, one.CreatedAt)
	}
	p.Pass(time.Minute + handlerLife)
	refused("it is dead, and the one before is not", one.TxHash, p.ask("f", guarded))
	p = newProcess(t, nil)
	p.holds = unit(1_000_000)
	p.set(func(s *settings.Settings) { s.NonceWindow, s.Daily = 64, token.Amount{} })
	for n := range store.MaxGuarded {
		p.ask(fmt.Sprint(n), guarded).is("none before is final", nil)
		p.Pass(guardTime + time.Second)
	}
	p.ask("one more", guarded).is("more than a guard names", dispatch.ErrTooMany)
}

// TestGuardOfAPaymentThatIsNotSigned: it holds up similar ones, until a dead request has left it without a nonce.
func TestGuardOfAPaymentThatIsNotSigned(t *testing.T) {
	pending, missing := dispatch.ErrSimilarPending, func(*process) error { return store.ErrNotFound }
	for name, test := range map[string]struct {
		since time.Duration
		does  script
		want  error
	}{
		"its request may live":        {handlerLife - time.Millisecond, nil, pending},
		"its request is dead":         {handlerLife, nil, nil},
		"its wallet cannot be read":   {handlerLife, breaks("Wallet#1"), dispatch.ErrUnavailable},
		"its guard cannot be read":    {handlerLife, breaks("Guard#2"), dispatch.ErrUnavailable},
		"it cannot be read":           {handlerLife, breaks("Payment#2"), dispatch.ErrUnavailable},
		"its guard is seen before it": {0, script{"Payment#2": missing}, pending},
		"and no write waits for it":   {0, breaks("Discard#1").With("Payment#2", missing), dispatch.ErrUnavailable},
		"another is created meanwhile": {handlerLife, script{"CreateGuarded#2": func(p *process) error {
			return p.ask("l", guarded).err
		}}, pending},
		"it is signed before the discard": {handlerLife, script{"Discard#1": func(p *process) error {
			return p.ask("k").err
		}}, pending},
	} {
		p := leftBy(t, byGuard, test.since, unreserved...)
		p.Script = test.does
		if a := p.ask("other", guarded).is(name, test.want); (p.stored().State == "") != (a.err == nil) && !strings.Contains(name, "meanwhile") {
			t.Errorf("%s: the first is %q", name, p.stored().State)
		}
	}
	leftBy(t, byGuard, handlerLife, "Sign#1").ask("other", guarded).is("it holds a nonce", pending)
	p := start(t, leftBy(t, byGuard, 0, unreserved...).Tables, nil)
	p.Pass(handlerLife)
	p.mined = 1
	if p.ask("other", guarded).is("the tables lack payments", wallet.ErrBehind); p.stored().State != payment.Prepared {
		t.Errorf("the tables lack payments: the first is %q", p.stored().State)
	}
}

// TestGuardTakesUp: a guarded key's request takes up the payment that its guard names, and no payment that none does.
func TestGuardTakesUp(t *testing.T) {
	leftBy(t, byGuard, handlerLife, unreserved...).ask("k", guarded).is("its own", nil).without("Discard#1")
	p := left(t, handlerLife, unreserved...)
	p.ask("k", guarded).is("of a key without a guard", dispatch.ErrDuplicate)
	if p.ask("k", guarded).is("the next request", nil); !p.stored().Guarded {
		t.Errorf("stored is %+v", p.stored())
	}
	batch, _ := asked.Batch([]payment.Entry{{To: asked.To, Amount: asked.Amount}})
	batch.IdempotencyKey = "batch"
	limited := batch
	limited.Key.Guard = guardTime
	p.request(limited).is("a batch", dispatch.ErrGuardedBatch)
	p.request(batch).is("of a key without a guard", nil)
	p.request(limited).is("a batch that is paid", nil)
}
