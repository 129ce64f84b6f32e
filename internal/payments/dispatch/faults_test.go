package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/dispatch"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/recovery/onchain"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/porttest"
)

// pause pauses a wallet, so that the next reservation on it is refused.
func pause(a token.Address) func(*process) error {
	return func(p *process) error { return p.Tables.Pause(context.Background(), walletOf(a), "by hand") }
}

// spend leaves a wallet 99 of the token.
func spend(a token.Address) func(*process) error {
	return func(p *process) error {
		return p.Tables.Reconcile(context.Background(), p.Record(walletOf(a)), unit(99), unit(1<<60), nil, nil)
	}
}

// replace is another request under the same key, after the payment of the first was discarded.
func replace(p *process) error {
	other := asked
	other.Amount = unit(101)
	stored := p.stored()
	p.Must(p.Tables.Discard(context.Background(), stored))
	p.Must(create(p, payment.New(stored.ID, other, token.Token{}, "", p.Now()).AssignedTo(first, stored.Tx)))
	return porttest.ErrBroken
}

// overtake is a faster process: it commits the payment at its reserved nonce.
func overtake(p *process) error {
	stored := p.stored()
	w, err := p.Tables.Reserve(context.Background(), store.NeedOf(stored, p.Now()))
	p.Must(err)
	p.Must(must.Err(store.Commit(context.Background(), p.Tables, p.Quiet(), stored, w.Reservations[stored.ID].Nonce, p.Now())))
	return nil
}

// elsewhere is a faster process that moves the payment to the second wallet, and commits it.
func elsewhere(p *process) error {
	stored := p.stored()
	p.Must(p.Tables.Reassign(context.Background(), stored.AssignedTo(second, stored.Tx), stored.Revision))
	return overtake(p)
}

// crowded fills the window of the first wallet. One of its payments is mined.
func crowded(p *process) error {
	p.mined = 1
	return full(p)
}

// full is crowded with none mined.
func full(p *process) error {
	for n := range 4 {
		need := wallet.Need{Wallet: walletOf(first), Payment: payment.ID(fmt.Sprint(n)), At: p.Now()}
		p.Must(must.Err(p.Tables.Reserve(context.Background(), need)))
	}
	return nil
}

func create(p *process, made payment.Payment) error {
	_, _, err := p.Tables.Create(context.Background(), made)
	return err
}

// useUp is a run that took the reservation for an orphan: it stores a no-op at the first nonce of the first wallet.
func useUp(p *process) error {
	tx := chain.Noop(1, first, chain.Fees{})
	p.Must(p.Tables.PutNoop(context.Background(),
		wallet.PendingNoop(walletOf(first), tx, chain.Signed{Hash: chain.Hash{7}, Raw: []byte{7}}, p.Now())))
	return nil
}

// day is a charge of the merchant's day, of which 5000 may be spent.
func day(amount uint64, at time.Time) store.Charge {
	return store.Charge{Merchant: asked.Merchant, Mode: asked.Mode, At: at, Amount: unit(amount), Count: 1,
		Limits: []payment.DailyLimit{{Amount: unit(5000)}}}
}

// TestEveryFailureIsAnswered: whichever call of a request fails, alone or with others, its answer is true. "Nothing was
// started" leaves no payment and no reservation. "In progress" is ended by the same request, sent again.
func TestEveryFailureIsAnswered(t *testing.T) {
	paid, unavailable, inProgress := []error{nil}, []error{dispatch.ErrUnavailable, porttest.ErrBroken},
		[]error{dispatch.ErrInProgress, porttest.ErrBroken}
	paused, reused := []error{dispatch.ErrUnavailable, wallet.ErrPaused}, []error{dispatch.ErrKeyReused}
	answered := func(name string, s script, want ...error) {
		t.Run(name, func(t *testing.T) {
			p := newProcess(t, s)
			began, a := p.Now(), p.ask("k")
			for _, want := range want {
				a.is(name, want)
			}
			for call := range s {
				t.Errorf("%s was not called: %v", call, p.Calls)
			}
			stored := p.stored()
			switch {
			case a.err == nil:
				if stored.State != payment.Committed || a.Payment.TxHash != stored.TxHash || a.Replayed ||
					p.Record(walletOf(stored.Wallet)).NextNonce != stored.Nonce+1 {
					t.Errorf("answered %s, stored is %s, %s", a.Payment.TxHash, stored.State, stored.TxHash)
				}
			case errors.Is(a.err, dispatch.ErrKeyReused):
				if errors.Is(a.err, dispatch.ErrInProgress) {
					t.Errorf("two answers: %v", a.err)
				}
			case errors.Is(a.err, dispatch.ErrUnavailable), errors.Is(a.err, dispatch.ErrInsufficient):
				if stored.ID != "" || p.nonces() > 0 {
					t.Errorf("nothing was started, but stored is %s %s", stored.State, stored.ID)
				}
				if !strings.Contains(name, "is not given back") { // the day is as it was
					p.Must(p.Tables.Charge(t.Context(), day(5000, p.Now())))
				}
			default:
				// Under a daily limit another handler may be charging it for a while.
				if stored.ID != "" && p.nonces() == 0 && p.Now().Equal(began) {
					p.ask("k").is("sent again at once", dispatch.ErrInProgress)
					p.Pass(time.Minute)
				}
				if again := p.ask("k").is("sent again", nil); again.Payment.TxHash != p.stored().TxHash {
					t.Errorf("answered %s, stored is %s", again.Payment.TxHash, p.stored().TxHash)
				}
			}
		})
	}
	fair := newProcess(t, script{})
	fair.ask("k").is("no call fails", nil)
	if !fair.Did("Compared#1") || !fair.Did("Release#1") || !fair.Did("Hint#1") {
		t.Errorf("there was no such call: %v", fair.Calls)
	}
	alone := map[string][]error{"Rules#1": unavailable, "Nodes#1": unavailable, "Wallets#1": unavailable, "Estimate#1": unavailable,
		"Fees#1": unavailable, "Charge#1": unavailable, "Create#1": {porttest.ErrBroken}, "Sign#1": inProgress}
	for _, call := range fair.Calls {
		want, fails := alone[call]
		if !fails {
			want = paid
		}
		answered(call, breaks(call), want...)
	}
	for _, test := range []struct {
		name   string
		script script
		want   []error
	}{
		{"the node knows no wallet's count", breaks("Account#1", "Account#2", "Account#3", "Account#4"), unavailable},
		{"and the payment perhaps not discarded then", breaks("Account#1", "Account#2", "Account#3", "Account#4", "Discard#1"), inProgress},
		{"no wallet can be opened", breaks("Open#1", "Open#2", "Open#3", "Open#4"), []error{dispatch.ErrUnavailable, wallet.ErrUnknown}},
		{"the registry is old by then, and cannot be read", breaks("Wallets#2", "Wallets#3").With("Estimate#1", func(p *process) error {
			p.Pass(time.Minute)
			return nil
		}), unavailable},
		{"there is no key", breaks("Signer#1", "Signer#2"), unavailable},
		{"no key can sign", breaks("Ready#1", "Ready#2"), unavailable},
		{"the day cannot be charged, nor the payment discarded", breaks("Charge#1", "Discard#1"), inProgress},

		{"the reservation is unknown, and another process commits", script{"Reserve#1": func(p *process) error {
			p.Must(overtake(p))
			return porttest.ErrBroken
		}}, paid},
		{"and the payment cannot be read", breaks("Reserve#1", "Payment#1"), inProgress},
		{"and its key has been used for another request", script{"Reserve#1": replace}, reused},
		{"no key can sign any more", breaks("Ready#2", "Ready#3"), unavailable},
		{"nor can the wallet be read", breaks("Ready#2", "Wallet#1"), inProgress},
		{"the commit is unknown, and the payment cannot be read", breaks("Commit#1", "Payment#1"), inProgress},
		{"and the key has been used for another request then", script{"Commit#1": replace}, reused},
		{"another process commits first", script{"Commit#1": overtake}, paid},
		{"and its bytes cannot be read", breaks("PendingTx#1").With("Commit#1", overtake), paid},
		{"another process commits before, and this one has the next nonce", script{"Reserve#1": func(p *process) error {
			p.Must(overtake(p))
			return p.Tables.Release(t.Context(), p.stored().ID, store.PendingTxOf(p.stored()))
		}}, paid},
		{"another process commits elsewhere", script{"Commit#1": elsewhere}, paid},
		{"a run has used up the nonce", script{"Commit#1": useUp}, paid},
		{"and its no-op cannot be read", breaks("PendingTx#1").With("Commit#1", useUp), inProgress},
		{"and the reservation cannot be released", breaks("Release#1").With("Commit#1", useUp), inProgress},

		{"the window is full", script{"Reserve#1": crowded}, paid},
		{"and none is mined", script{"Reserve#1": full}, paid},
		{"and nobody knows how many are mined", breaks("Account#3").With("Reserve#1", crowded), paid},
		{"and the ceiling is perhaps not raised", breaks("RaiseCeiling#1").With("Reserve#1", crowded), paid},

		{"the wallet is paused", script{"Reserve#1": pause(first)}, paid},
		{"and moving the payment fails", breaks("Reassign#1").With("Reserve#1", pause(first)), paused},
		{"and the payment cannot be read after that", breaks("Reassign#1", "Payment#1").With("Reserve#1", pause(first)), inProgress},
		{"and the registry cannot be read", breaks("Wallets#3").With("Reserve#1", func(p *process) error {
			p.Pass(dispatch.RegistryAge)
			return pause(first)(p)
		}), inProgress},
		{"and its key has been used meanwhile", script{"Reserve#1": pause(first), "Reassign#1": replace}, reused},
		{"both are paused", script{"Reserve#1": pause(first), "Reserve#2": pause(second)}, paused},
		{"both are too poor", script{"Reserve#1": spend(first), "Reserve#2": spend(second)}, []error{dispatch.ErrInsufficient}},
		{"one has too little, one is paused", script{"Reserve#1": spend(first), "Reserve#2": pause(second)}, paused},
		{"one is paused, the other is too poor", script{"Reserve#1": pause(first), "Reserve#2": spend(second)}, paused},
		{"and the day is not given back", breaks("Refund#1").With("Reserve#1", pause(first)).With("Reserve#2", pause(second)), paused},
	} {
		answered(test.name, test.script, test.want...)
	}
}

// TestRounds: eight times the outcome of a reservation may be unknown, and a payment that is committed in the last
// round is answered as committed. Four wallets may refuse it, however many there are.
func TestRounds(t *testing.T) {
	unknown := func(*process) error { return porttest.ErrBroken }
	refused := func(p *process) error { return pause(p.stored().Wallet)(p) }
	poor := func(p *process) error { return spend(p.stored().Wallet)(p) }
	both := func(p *process) error {
		return map[bool]func(*process) error{false: refused, true: unknown}[p.Did("Reserve#4")](p)
	}
	for _, test := range []struct {
		times, reserves int
		act             func(*process) error
		want            error
	}{{7, 8, unknown, nil}, {8, 8, unknown, dispatch.ErrInProgress}, {4, 4, refused, wallet.ErrPaused},
		{4, 4, poor, dispatch.ErrUnavailable}, {10, 11, both, nil}} {
		p := newProcess(t, script{})
		for n := range 10 {
			p.keys = append(p.keys, token.Address{3, byte(n)})
			if n < test.times {
				p.Script[fmt.Sprint("Reserve#", n+1)] = test.act
			}
		}
		if p.ask("k").is("round by round", test.want); p.Times["Reserve"] != test.reserves {
			t.Errorf("%d reservations, want %d", p.Times["Reserve"], test.reserves)
		}
	}
}

// TestFirstUseOfAUsedKey: the tables may have lost the payments of a wallet that has paid and has no record. Another
// wallet, whose record is right, would make them again.
func TestFirstUseOfAUsedKey(t *testing.T) {
	for name, test := range map[string]struct {
		script    script
		ephemeral bool
		want      error
		next      uint64 // of the first wallet
	}{
		"it has paid": {script{}, false, wallet.ErrBehind, 0},
		"another process opens it and pays": {script{"Account#2": func(p *process) error {
			return p.Tables.Open(t.Context(), wallet.Wallet{ID: walletOf(first), NextNonce: 2}, porttest.Rail.Token.Contract)
		}}, false, nil, 2},
		"and has paid before": {script{"Account#2": func(p *process) error {
			return p.Tables.Open(t.Context(), wallet.Wallet{ID: walletOf(first), NextNonce: 1}, porttest.Rail.Token.Contract)
		}}, false, wallet.ErrBehind, 1},
		"the tables are as old as the process is":  {script{}, true, nil, 3},
		"and the count of final ones is not known": {breaks("Count#1", "Count#2"), true, porttest.ErrBroken, 0},
	} {
		p := newProcess(t, test.script)
		p.open(second)
		p.mined, p.idle, p.d.Ephemeral = 2, second, test.ephemeral
		if a := p.ask("k").is(name, test.want); a.err != nil {
			a.without("Reserve#1", "Open#1")
		}
		if w, _ := p.Tables.Wallet(t.Context(), walletOf(first)); w.NextNonce != test.next || w.Suspect() {
			t.Errorf("%s: opened as %+v", name, w)
		}
	}
	p := newProcess(t, nil)
	p.Must(owning(p))
	p.Tables.SpoilRegistration(walletOf(own))
	p.ask("k").is("beside a damaged registration, maybe of a wallet that never paid", nil)
}

// TestFeesAreKept for the time of a block.
func TestFeesAreKept(t *testing.T) {
	p := newProcess(t, breaks("Fees#1"))
	p.ask("k").is("they are unknown", dispatch.ErrUnavailable)
	for n, times := range []int{2, 2, 3} {
		if p.ask(fmt.Sprint(n)).is("they are known", nil); p.Times["Fees"] != times {
			t.Errorf("request %d: %d queries, want %d", n, p.Times["Fees"], times)
		}
		p.Pass(time.Minute / 2)
	}
}

// TestWithoutAKey: a request without a key has no payment that could be asked for again, so an unknown write means
// that nothing was started. Without randomness nothing is stored.
func TestWithoutAKey(t *testing.T) {
	for _, call := range []string{"Create#1", "Fees#1"} {
		p := newProcess(t, breaks(call))
		p.ask("").is(call+" fails", dispatch.ErrUnavailable).is(call+" fails", porttest.ErrBroken).without("Payment#1")
	}
	p := newProcess(t, script{})
	p.d.Random = iotest.ErrReader(porttest.ErrBroken)
	p.ask("").is("without randomness", porttest.ErrBroken).without("Create#1")
	p.set(func(s *settings.Settings) { s.RequireKey = true })
	p.ask("").is("the stack requires a key", dispatch.ErrKeyMissing)
	p.set(func(s *settings.Settings) { s.Closed = true })
	p.Script = breaks(fmt.Sprint("Nodes#", p.Times["Nodes"]+1))
	p.ask("").is("it is closed, and without nodes", dispatch.ErrKeyMissing)
}

// TestAWalletOfTheStack is refused before anything else that is wrong, but not if its payment was made before.
func TestAWalletOfTheStack(t *testing.T) {
	p := newProcess(t, script{})
	p.ask("paid").is("before", nil)
	p.keys = append(p.keys, asked.To)
	p.Pass(dispatch.RegistryAge)
	p.ask("paid").is("its replay", nil)
	p.set(func(s *settings.Settings) { s.RequireKey = true })
	p.ask("").is("without a key", dispatch.ErrOwnWallet)
	p.set(func(s *settings.Settings) { s.Closed = true })
	p.Script["Nodes#4"] = func(*process) error { return porttest.ErrBroken }
	p.ask("k", p.until(dispatch.MaxNotAfter+time.Second)).is("too far ahead, without nodes", dispatch.ErrOwnWallet)
	p.ask("k", p.until(-time.Second), func(r *payment.Request) {
		r.Key = payment.KeyLimits{OtherAsset: true, ApproveAbove: unit(99)}
	}).is("late, not for this key, and closed", dispatch.ErrOwnWallet)
	if len(p.Script) > 0 || p.Times["Wallets"] != 3 {
		t.Errorf("%d reads of wallets, one of them of a startup check: %v", p.Times["Wallets"], p.Calls)
	}
}

// TestTimeForAPayment: six seconds are the least that must be left for a
// reservation, on the way there as for a payment that is taken up again.
func TestTimeForAPayment(t *testing.T) {
	for left, enough := range map[time.Duration]bool{6*time.Second - 1: false, 6 * time.Second: true} {
		for what, p := range map[string]*process{"new": newProcess(t, script{}), "taken up": newProcess(t, breaks("Sign#1"))} {
			want := map[bool]error{false: dispatch.ErrUnavailable}[enough]
			if what == "taken up" {
				p.ask("k").is("begun", dispatch.ErrInProgress)
				want = map[bool]error{false: dispatch.ErrInProgress}[enough]
			}
			ctx, cancel := context.WithDeadline(t.Context(), p.Now().Add(left))
			defer cancel()
			before := p.Times["Reserve"]
			result, err := p.d.Send(ctx, asked)
			answer{Result: result, err: err, p: p}.is(fmt.Sprint(what, " with ", left, " left"), want)
			if p.Times["Reserve"] > before != enough {
				t.Errorf("%s with %v left: %v", what, left, p.Calls)
			}
			if what == "new" && !enough {
				p.Must(p.Tables.Charge(t.Context(), day(5000, p.Now()))) // it has returned its reservation
			}
		}
	}
}

// TestWithoutRules: a request that finishes a payment while no rules are known uses up no nonce.
func TestWithoutRules(t *testing.T) {
	p := left(t, settings.MaxAge, "Sign#1")
	p.Script = breaks("Rules#2").With("Commit#1", elsewhere)
	if p.ask("k").is("it is made elsewhere", nil).without("Orphan#1"); len(p.Script) > 0 {
		t.Error(p.Calls)
	}
}

// TestANonceThatIsForgone is used up step by step, and left to check-receipts at the first that fails. The no-op ties
// up its L1 fee too.
func TestANonceThatIsForgone(t *testing.T) {
	for call, never := range map[string]string{"": "nothing", "Orphan#1": "PutNoop#1", "Ready#3": "PutNoop#1",
		"Fees#2": "PutNoop#1", "Sign#2": "PutNoop#1", "PutNoop#1": "Send#2"} {
		p := newProcess(t, breaks(call).With("Commit#1", elsewhere))
		if p.ask("k").is(call+" fails", nil).without(never); p.Did("Send#2") != (call == "") {
			t.Errorf("%s fails: %v", call, p.Calls)
		}
		noop, _ := p.Tables.PendingTx(t.Context(), walletOf(first), 0)
		if gas, _ := noop.Fees.Cap.Times(chain.GasLimit(50_000)); call == "" && !gas.Less(noop.Gas) {
			t.Errorf("it ties up %+v", noop)
		}
	}
}

// A book is the address book of every merchant of a process.
type book struct {
	active token.Address
	err    error
	asked  int64
}

func (b *book) Active(_ context.Context, _, _ string, to token.Address, _ time.Time) (bool, error) {
	atomic.AddInt64(&b.asked, 1)
	return to == b.active, b.err
}

// TestADayOfEachAsset: two assets share no day of a merchant, and the default's has no name. A key's day is one.
func TestADayOfEachAsset(t *testing.T) {
	p := newProcess(t, nil)
	p.set(func(s *settings.Settings) { s.Daily = unit(150) })
	euro := porttest.Rail.Coin()
	for n, want := range []error{nil, nil, store.ErrDailyLimit, store.ErrDailyLimit} {
		p.d.Further = n == 1 || n == 2 // as if another rail were the first
		p.ask(fmt.Sprint(n), func(r *payment.Request) {
			if r.Key.Daily = (payment.DailyLimit{Key: "key_a", Amount: unit(999), Count: 9}); p.d.Further {
				r.Asset = euro
			}
		}).is(fmt.Sprint("payment ", n), want)
	}
	for name, want := range map[string]uint64{"": 100, euro.String(): 100, "key_a": 200} {
		if sum, _, err := p.Tables.Charged(t.Context(), asked.Merchant, asked.Mode, name, p.Now()); err != nil || sum != unit(want) {
			t.Errorf("%q was charged %v, %v", name, sum, err)
		}
	}
}

// TestLimitsOfAKey: a key's own limits refuse a payment before anything is stored, and never a payment that is made.
func TestLimitsOfAKey(t *testing.T) {
	less, daily := unit(99), payment.DailyLimit{Key: "key_a", Amount: asked.Amount, Count: 1}
	full := daily
	full.Amount = less
	for name, test := range map[string]struct {
		limits payment.KeyLimits
		book   book
		want   error
	}{
		"as much as is allowed":           {payment.KeyLimits{Maximum: asked.Amount}, book{}, nil},
		"more":                            {payment.KeyLimits{Maximum: less}, book{}, dispatch.ErrAmountAbove},
		"an active entry":                 {payment.KeyLimits{Book: true}, book{active: asked.To}, nil},
		"no active entry":                 {payment.KeyLimits{Book: true}, book{}, dispatch.ErrNotInBook},
		"a book that cannot be read":      {payment.KeyLimits{Book: true}, book{asked.To, porttest.ErrBroken, 0}, dispatch.ErrUnavailable},
		"a day with room":                 {payment.KeyLimits{Daily: daily}, book{}, nil},
		"a day that is over":              {payment.KeyLimits{Daily: full}, book{}, store.ErrDailyLimit},
		"another asset than the key's":    {payment.KeyLimits{OtherAsset: true}, book{}, dispatch.ErrOtherAsset},
		"the merchant's own maximum":      {payment.KeyLimits{MerchantMaximum: less}, book{}, dispatch.ErrAmountAbove},
		"the merchant's own day":          {payment.KeyLimits{MerchantDaily: less}, book{}, store.ErrDailyLimit},
		"both above the stack's":          {payment.KeyLimits{MerchantMaximum: asked.Amount, MerchantDaily: asked.Amount}, book{}, nil},
		"the merchant's day that is over": {payment.KeyLimits{Daily: daily, MerchantDaily: less}, book{}, store.ErrDailyLimit},
	} {
		p := newProcess(t, script{})
		p.set(func(s *settings.Settings) {
			if s.Daily = (token.Amount{}); name == "both above the stack's" {
				s.Maximum, s.Daily = unit(50), unit(50)
			}
		})
		p.d.Book = &test.book
		limited := func(r *payment.Request) { r.Key = test.limits }
		if p.ask("k", limited).is(name, test.want); (p.stored().ID == "") != (test.want != nil) || test.book.asked > 0 != test.limits.Book {
			t.Errorf("%s: stored is %+v, after %d reads of the book", name, p.stored(), test.book.asked)
		}
		if test.want != nil && test.want != dispatch.ErrUnavailable {
			p.ask("k").is("by a key without limits", nil)
			if !p.ask("k", limited).is(name+", its replay", nil).Replayed {
				t.Errorf("%s: no replay", name)
			}
		}
	}
}

// TestAnotherWalletIsTried: a payment moves on from a wallet that refuses it.
func TestAnotherWalletIsTried(t *testing.T) {
	p := newProcess(t, script{"Reserve#1": pause(first)})
	if p.ask("k").is("the first is paused", nil).by(second).without("Payment#1"); p.Record(walletOf(first)).NextNonce != 0 {
		t.Errorf("it has used a nonce, after %v", p.Calls)
	}
	p.ask("next").is("the other at once", nil).by(second).without("Reassign#2")
	p = newProcess(t, breaks("Ready#1"))
	for n := range 2 {
		if p.ask(fmt.Sprint(n)).is("its key was out of reach", nil).by(second); p.Times["Ready"] != 3+2*n {
			t.Errorf("%d keys were tried", p.Times["Ready"])
		}
	}
	p = newProcess(t, breaks("Ready#1"))
	p.poor = second
	p.ask("k").is("the first's key is out of reach, and the second has too little", dispatch.ErrUnavailable)
	p = newProcess(t, script{"Reserve#1": pause(first), "Reserve#2": pause(second)})
	p.set(func(s *settings.Settings) { s.Daily = token.Amount{} })
	p.ask("k").is("without a limit", dispatch.ErrUnavailable).without("Charge#1", "Refund#1")
}

// TestAPauseIsNamed: a refusal says why wallets are paused.
func TestAPauseIsNamed(t *testing.T) {
	for reason, behind := range map[string]bool{"by hand": false, wallet.RolledBack + ": the nodes lack a block that was final": true} {
		p := newProcess(t, nil)
		for _, a := range p.keys {
			p.open(a)
			p.Must(p.Tables.Pause(t.Context(), walletOf(a), reason))
		}
		a := p.ask("k").is(reason, dispatch.ErrUnavailable)
		if a.says(reason); errors.Is(a.err, dispatch.ErrRolledBack) != behind {
			t.Errorf("%s: %v", reason, a.err)
		}
	}
}

// TestGaps: a node that misses predecessors gets those of the wallet, and the bytes again, unless they cannot be read.
func TestGaps(t *testing.T) {
	for call, want := range map[string]int{"": 3, "PendingTxs#1": 1} {
		p := newProcess(t, breaks("Send#1", call))
		p.keys = p.keys[:1]
		p.ask("k").is("sent to nobody", nil)
		p.reply = chain.Gap
		p.ask("next").is("next", nil)
		before, _ := p.Tables.PendingTx(t.Context(), walletOf(first), 0)
		if len(p.sent) != want || want > 1 && string(p.sent[1]) != string(before.Raw) {
			t.Errorf("%q breaks: sent %q, want %q between", call, p.sent, before.Raw)
		}
	}
}

// TestAProcessKnowsTheWallets: it reads each once, on tables with payments or without, and remembers which can pay.
func TestAProcessKnowsTheWallets(t *testing.T) {
	p := newProcess(t, script{})
	p.poor = first
	p.ask("the process is cold").is("cold", nil)
	before := p.Times["Estimate"]
	if p.ask("k").is("a wallet without the token", nil).by(second); p.Times["Estimate"] != before+1 {
		t.Errorf("it is tried: %v", p.Calls)
	}
	p.Must(pause(second)(p))
	p.Must(p.Tables.Reconcile(t.Context(), p.Record(walletOf(first)), unit(1000), unit(1<<60), nil, nil))
	for _, mined := range []uint64{0, 1} {
		p := start(t, p.Tables, script{})
		p.idle, p.mined = first, mined
		p.ask(fmt.Sprint("cold ", mined)).is("cold", nil)
		p.Must(p.Tables.RaiseCeiling(t.Context(), walletOf(first), 9))
		if p.ask(fmt.Sprint("next ", mined)).is("next", nil).by(first).without("Reassign#1"); p.Times["Wallet"] != 2 {
			t.Errorf("%d mined: %v", mined, p.Calls)
		}
	}
}

// TestAWalletThatCannotBeHeldAgainstTheChain stops a process that starts.
func TestAWalletThatCannotBeHeldAgainstTheChain(t *testing.T) {
	earlier := newProcess(t, script{})
	earlier.keys = earlier.keys[:1]
	earlier.ask("k").is("earlier", nil)
	for _, calls := range [][]string{{"Wallet#1", "Wallet#2"}, {"Account#1", "Account#2"}} {
		p := start(t, earlier.Tables, breaks(calls...))
		p.keys = p.keys[:1]
		if p.ask("next").is(calls[0], dispatch.ErrUnavailable).is(calls[0], porttest.ErrBroken).without("Reserve#1"); !p.Did("Discard#1") {
			t.Errorf("%q fail: %v", calls, p.Calls)
		}
	}
}

// TestFoundOnTheChain: a payment that only the chain had is its merchant's once a request shows the key: it must have
// the same amount, and leaves its reference.
func TestFoundOnTheChain(t *testing.T) {
	found := func(s script, commit bool) *process {
		p := newProcess(t, s)
		offer := payment.New(payment.KeyID(asked.Merchant, asked.Mode, asked.IdempotencyKey), asked, porttest.Rail.Token, "", p.Now())
		mined := chain.MinedTx{From: first, To: porttest.Rail.Token.Contract, Data: string(offer.Call(token.Address{}, true).Data), At: p.Now()}
		stored, _ := onchain.Payment(mined, 1, porttest.Rail.Token, "")
		p.Must(create(p, stored))
		if commit {
			p.Must(p.Tables.Commit(t.Context(), must.Get(stored.Commit(chain.Signed{Nonce: 7, Hash: chain.Hash{7}, Raw: []byte{}}, p.Now()))(t)))
		}
		return p
	}
	faster := func(p *process) error { return start(t, p.Tables, script{}).ask("k").err }
	named := func(r *payment.Request) { r.Reference = "order 1" }
	p := found(script{}, true)
	p.ask("k", func(r *payment.Request) { r.Amount = unit(101) }).is("another amount", dispatch.ErrKeyReused)
	made := p.ask("k", named).is("its own", nil)
	if !made.Replayed || made.Payment.TxHash != (chain.Hash{7}) || made.Payment.Reference != "order 1" || made.Payment.Version != 2 ||
		*made.Payment.Public().Key != asked.IdempotencyKey {
		t.Errorf("%+v", made.Result)
	}
	p.ask("k").is("without the reference", dispatch.ErrKeyReused)
	for name, p := range map[string]*process{
		"not committed yet":                found(script{}, false),
		"the write is unknown":             found(breaks("Adopt#1"), true),
		"and so is another request's read": found(breaks("Payment#1").With("Adopt#1", faster), true),
	} {
		p.ask("k", named).is(name, dispatch.ErrInProgress).without("Send#1")
	}
	found(script{"Adopt#1": faster}, true).ask("k").is("another request was faster", nil)
}

// TestCommitsThatFailAreTold: a request whose every commit fails reports that to the meter and to
// the log, and a request that another process overtakes does not.
func TestCommitsThatFailAreTold(t *testing.T) {
	for told, s := range map[bool]script{true: down("Commit"), false: {"Commit#1": overtake}} {
		p := newProcess(t, s)
		err := p.ask("k").err
		if errors.Is(err, dispatch.ErrCommit) != told || errors.Is(err, dispatch.ErrInProgress) != told ||
			errors.Is(err, dispatch.ErrWaiting) || strings.Contains(p.log.String(), `level=ERROR msg="commit failed"`) != told {
			t.Errorf("told: %t: %v, and the log has %s", told, err, &p.log)
		}
	}
}
