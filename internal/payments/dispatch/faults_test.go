package dispatch_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/deployment/stack"
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

// replace is another request under the same key, after the payment of the first was discarded.
func replace(p *process) error {
	other := asked
	other.Amount = token.Units(101)
	stored := p.stored()
	p.Must(p.Tables.Discard(context.Background(), stored))
	_, _, err := p.Tables.Create(context.Background(), payment.New(stored.ID, other, token.Token{}, "", p.Now()).AssignedTo(first, stored.Tx))
	p.Must(err)
	return porttest.ErrBroken
}

// overtake is a faster process: it commits the payment at its reserved nonce.
func overtake(p *process) error {
	stored := p.stored()
	w, err := p.Tables.Reserve(context.Background(), store.NeedOf(stored, p.Now()))
	p.Must(err)
	_, err = store.Commit(context.Background(), p.Tables, p.Quiet(), stored, w.Reservations[stored.ID].Nonce, p.Now())
	p.Must(err)
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
		_, err := p.Tables.Reserve(context.Background(), wallet.Need{Wallet: walletOf(first), Payment: payment.ID(fmt.Sprint(n)), At: p.Now()})
		p.Must(err)
	}
	return nil
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
	return store.Charge{Merchant: asked.Merchant, Mode: asked.Mode, At: at, Amount: token.Units(amount), Count: 1,
		Limits: []payment.DailyLimit{{Amount: token.Units(5000)}}}
}

// TestEveryFailureIsAnswered: whichever call of a request fails, its answer is true. "Nothing was started" leaves no
// payment and no reservation. "In progress" is ended by the same request, sent again.
func TestEveryFailureIsAnswered(t *testing.T) {
	unavailable, inProgress := []error{dispatch.ErrUnavailable, porttest.ErrBroken}, []error{dispatch.ErrInProgress, porttest.ErrBroken}
	for _, test := range []struct {
		name   string
		script script
		want   []error // the answer; none: 201
	}{
		{"no call fails", script{}, nil},

		{"no node is known", breaks("Nodes#1"), unavailable},
		{"the registry cannot be read", breaks("Wallets#1"), unavailable},
		{"the last comparison is unknown", breaks("Compared#1"), nil},
		{"the node does not know a wallet's count", breaks("Account#1"), nil},
		{"nor any other's", breaks("Account#1", "Account#2", "Account#3", "Account#4"), unavailable},
		{"and the payment perhaps not discarded then", breaks("Account#1", "Account#2", "Account#3", "Account#4", "Discard#1"), inProgress},
		{"a wallet cannot be opened", breaks("Open#1"), nil},
		{"nor any other", breaks("Open#1", "Open#2", "Open#3", "Open#4"), []error{dispatch.ErrUnavailable, wallet.ErrUnknown}},
		{"the wallets cannot be listed to open one", breaks("Wallets#2"), nil},
		{"the registry is old by then, and cannot be read", breaks("Wallets#2", "Wallets#3").With("Estimate#1", func(p *process) error {
			p.Pass(time.Minute)
			return nil
		}), unavailable},
		{"the node does not simulate", breaks("Estimate#1"), unavailable},
		{"the node knows no price", breaks("Fees#1"), unavailable},
		{"there is no key", breaks("Signer#1"), nil},
		{"nor any other", breaks("Signer#1", "Signer#2"), unavailable},
		{"the key is out of reach", breaks("Ready#1"), nil},
		{"as is the other", breaks("Ready#1", "Ready#2"), unavailable},
		{"the payment may or may not be stored", breaks("Create#1"), []error{porttest.ErrBroken}},
		{"the day cannot be charged", breaks("Charge#1"), unavailable},
		{"and the payment perhaps not discarded", breaks("Charge#1", "Discard#1"), inProgress},

		{"the reservation is unknown", breaks("Reserve#1"), nil},
		{"and another process commits", script{"Reserve#1": func(p *process) error { p.Must(overtake(p)); return porttest.ErrBroken }}, nil},
		{"and the payment cannot be read", breaks("Reserve#1", "Payment#1"), inProgress},
		{"and its key has been used for another request", script{"Reserve#1": replace}, []error{dispatch.ErrKeyReused}},
		{"there is no key any more", breaks("Signer#2"), nil},
		{"the key is out of reach since", breaks("Ready#2"), nil},
		{"as is the other", breaks("Ready#2", "Ready#3"), unavailable},
		{"and the wallet cannot be read", breaks("Ready#2", "Wallet#1"), inProgress},
		{"the key does not sign", breaks("Sign#1"), inProgress},
		{"the commit is unknown", breaks("Commit#1"), nil},
		{"and the payment cannot be read after it", breaks("Commit#1", "Payment#1"), inProgress},
		{"and the key has been used for another request then", script{"Commit#1": replace}, []error{dispatch.ErrKeyReused}},
		{"another process commits first", script{"Commit#1": overtake}, nil},
		{"and its bytes cannot be read", breaks("PendingTx#1").With("Commit#1", overtake), nil},
		{"another process commits elsewhere", script{"Commit#1": elsewhere}, nil},
		{"a run has used up the nonce", script{"Commit#1": useUp}, nil},
		{"and its no-op cannot be read", breaks("PendingTx#1").With("Commit#1", useUp), inProgress},
		{"and the reservation cannot be released", breaks("Release#1").With("Commit#1", useUp), inProgress},
		{"the release is lost", breaks("Release#1"), nil},
		{"the hint is lost", breaks("Hint#1"), nil},
		{"the broadcast is lost", breaks("Send#1"), nil},

		{"the window is full", script{"Reserve#1": crowded}, nil},
		{"and none is mined", script{"Reserve#1": full}, nil},
		{"and nobody knows how many are mined", breaks("Account#3").With("Reserve#1", crowded), nil},
		{"and the ceiling is perhaps not raised", breaks("RaiseCeiling#1").With("Reserve#1", crowded), nil},

		{"the wallet is paused", script{"Reserve#1": pause(first)}, nil},
		{"and moving the payment fails", breaks("Reassign#1").With("Reserve#1", pause(first)),
			[]error{dispatch.ErrUnavailable, wallet.ErrPaused}},
		{"and the payment cannot be read after that", breaks("Reassign#1", "Payment#1").With("Reserve#1", pause(first)), inProgress},
		{"and the registry cannot be read", breaks("Wallets#3").With("Reserve#1", func(p *process) error {
			p.Pass(dispatch.RegistryAge)
			return pause(first)(p)
		}), inProgress},
		{"and its key has been used for another request meanwhile", script{"Reserve#1": pause(first), "Reassign#1": replace},
			[]error{dispatch.ErrKeyReused}},
		{"both are paused", script{"Reserve#1": pause(first), "Reserve#2": pause(second)}, []error{dispatch.ErrUnavailable, wallet.ErrPaused}},
		{"and the day's charge is not given back", breaks("Refund#1").With("Reserve#1", pause(first)).With("Reserve#2", pause(second)),
			[]error{dispatch.ErrUnavailable, wallet.ErrPaused}},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newProcess(t, test.script)
			began := p.Now()
			result, err := p.pay()
			for _, want := range test.want {
				if !errors.Is(err, want) {
					t.Errorf("answered %v, want %v", err, want)
				}
			}
			if test.want == nil && err != nil {
				t.Errorf("answered %v", err)
			}
			for call := range test.script {
				t.Errorf("%s was not called: %v", call, p.Calls)
			}
			stored := p.stored()
			switch {
			case err == nil:
				if stored.State != payment.Committed || result.Payment.TxHash != stored.TxHash || result.Replayed ||
					p.Record(walletOf(stored.Wallet)).NextNonce != stored.Nonce+1 {
					t.Errorf("answered %+v, stored is %+v", result, stored)
				}
				for _, raw := range p.sent {
					txs, _, _ := p.Tables.PendingTxs(t.Context(), walletOf(first), 0)
					others, _, _ := p.Tables.PendingTxs(t.Context(), walletOf(second), 0)
					if !slices.ContainsFunc(slices.Concat(txs, others), func(tx wallet.PendingTx) bool { return bytes.Equal(tx.Raw, raw) }) {
						t.Errorf("sent %q, which is not stored", raw)
					}
				}
			case result.Payment.ID != "":
				t.Errorf("answered %+v beside an error", result)
			case errors.Is(err, dispatch.ErrKeyReused) && errors.Is(err, dispatch.ErrInProgress):
				t.Errorf("two answers: %v", err)
			case errors.Is(err, dispatch.ErrUnavailable) && (stored.ID != "" || !p.holdsNothing() || errors.Is(err, dispatch.ErrInProgress)):
				t.Errorf("nothing was started, but stored is %+v, and the error is %v", stored, err)
			case !errors.Is(err, dispatch.ErrUnavailable) && !errors.Is(err, dispatch.ErrKeyReused):
				// Under a daily limit another handler may be charging it for a while.
				if p.stored().ID != "" && p.holdsNothing() && p.Now().Equal(began) {
					if _, err := p.pay(); !errors.Is(err, dispatch.ErrInProgress) {
						t.Errorf("sent again at once: %v", err)
					}
					p.Pass(time.Minute)
				}
				if result, err := p.pay(); err != nil || result.Payment.State != payment.Committed || result.Payment.TxHash != p.stored().TxHash {
					t.Errorf("sent again: %+v, %v", result, err)
				}
			}
		})
	}
}

// TestRounds: eight times the outcome of a reservation may be unknown, and a payment that is committed in the last
// round is answered as committed. Four wallets may refuse it, however many there are.
func TestRounds(t *testing.T) {
	unknown := func(*process) error { return porttest.ErrBroken }
	refused := func(p *process) error { return pause(p.stored().Wallet)(p) }
	for _, test := range []struct {
		times, reserves int
		act             func(*process) error
		want            error
	}{
		{7, 8, unknown, nil},
		{8, 8, unknown, dispatch.ErrInProgress},
		{4, 4, refused, wallet.ErrPaused},
	} {
		s := script{}
		for n := range test.times {
			s[fmt.Sprint("Reserve#", n+1)] = test.act
		}
		p := newProcess(t, s)
		for n := range 8 {
			p.keys = append(p.keys, token.Address{3, byte(n)})
		}
		if _, err := p.pay(); !errors.Is(err, test.want) || p.Times["Reserve"] != test.reserves {
			t.Errorf("%v after %d reservations, want %v after %d", err, p.Times["Reserve"], test.want, test.reserves)
		}
	}
}

// TestFirstUseOfAUsedKey: the tables may have lost the payments of a wallet that has paid and has no record. Another
// wallet, whose record is right, would make them again.
func TestFirstUseOfAUsedKey(t *testing.T) {
	opens := func(next uint64) script {
		return script{"Account#2": func(p *process) error {
			w := wallet.Wallet{ID: walletOf(first), NextNonce: next}
			return p.Tables.Open(context.Background(), w, porttest.Rail.Token.Contract)
		}}
	}
	for name, test := range map[string]struct {
		script    script
		ephemeral bool
		want      error
		next      uint64 // of the first wallet
	}{
		"it has paid":                              {script{}, false, wallet.ErrBehind, 0},
		"nobody knows":                             {breaks("Account#2", "Account#3"), false, porttest.ErrBroken, 0},
		"another process opens it and pays":        {opens(2), false, nil, 2},
		"a run of check-receipts opens it":         {opens(0), false, wallet.ErrBehind, 0},
		"the tables are as old as the process is":  {script{}, true, nil, 3},
		"and the count of final ones is not known": {breaks("Count#1", "Count#2"), true, porttest.ErrBroken, 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProcess(t, test.script)
			p.open(second)
			p.mined, p.idle, p.d.Ephemeral = 2, second, test.ephemeral
			_, err := p.pay()
			if !errors.Is(err, test.want) || test.want != nil && (p.Did("Reserve#1") || p.Did("Open#1")) {
				t.Errorf("%v, after %v", err, p.Calls)
			}
			if w, _ := p.Tables.Wallet(t.Context(), walletOf(first)); w.NextNonce != test.next || w.Suspect() {
				t.Errorf("opened as %+v", w)
			}
		})
	}
}

// TestWithoutAKey: a request without a key has no payment that could be asked for again, so an unknown write means
// that nothing was started. Without randomness nothing is stored.
func TestWithoutAKey(t *testing.T) {
	for _, call := range []string{"Create#1", "Fees#1"} {
		p := newProcess(t, breaks(call))
		if _, err := p.send(""); !errors.Is(err, dispatch.ErrUnavailable) || !errors.Is(err, porttest.ErrBroken) || p.Did("Payment#1") {
			t.Errorf("%s fails: %v, after %v", call, err, p.Calls)
		}
	}
	p := newProcess(t, script{})
	p.d.Random = iotest.ErrReader(porttest.ErrBroken)
	if _, err := p.send(""); !errors.Is(err, porttest.ErrBroken) || p.Did("Create#1") {
		t.Errorf("%v, after %v", err, p.Calls)
	}
}

// TestTimeForAPayment: six seconds are the least that must be left for a
// reservation, on the way there as for a payment that is taken up again.
func TestTimeForAPayment(t *testing.T) {
	for left, enough := range map[time.Duration]bool{6*time.Second - 1: false, 6 * time.Second: true} {
		p := newProcess(t, script{})
		ctx, cancel := context.WithDeadline(t.Context(), p.Now().Add(left))
		defer cancel()
		if _, err := p.d.Send(ctx, asked); (err == nil) != enough || !enough && !errors.Is(err, dispatch.ErrUnavailable) {
			t.Errorf("with %v left: %v", left, err)
		}
		if p.Did("Reserve#1") != enough {
			t.Errorf("with %v left: %v", left, p.Calls)
		}
		if !enough {
			p.Must(p.Tables.Charge(t.Context(), day(5000, p.Now()))) // it has returned its reservation
		}
		p = newProcess(t, breaks("Sign#1"))
		if _, err := p.pay(); !errors.Is(err, dispatch.ErrInProgress) {
			t.Fatal(err)
		}
		if _, err := p.d.Send(ctx, asked); (err == nil) != enough || !enough &&
			(!errors.Is(err, dispatch.ErrInProgress) || errors.Is(err, dispatch.ErrUnavailable)) {
			t.Errorf("taken up with %v left: %v", left, err)
		}
	}
}

// TestWithoutRules: a request that finishes a payment while no rules are known gives it to no
// other wallet, and uses up no nonce.
func TestWithoutRules(t *testing.T) {
	for name, test := range map[string]struct {
		script script
		never  string
	}{
		"it has lost its nonce": {script{"Reserve#2": func(p *process) error {
			id := p.stored().ID
			p.Must(p.Tables.Release(t.Context(), id, wallet.PendingTx{ID: walletOf(first), Nonce: p.Record(walletOf(first)).Reservations[id].Nonce}))
			return pause(first)(p)
		}}, "Reassign#1"},
		"it is made elsewhere": {script{"Commit#1": elsewhere}, "Orphan#1"},
	} {
		p := left(t, settings.MaxAge, "Sign#1")
		p.Script = test.script.With("Rules#2", func(*process) error { return porttest.ErrBroken })
		if _, err := p.pay(); err != nil && !errors.Is(err, dispatch.ErrInProgress) || p.Did(test.never) || len(p.Script) > 0 {
			t.Errorf("%s: %v, after %v", name, err, p.Calls)
		}
	}
}

// TestANonceThatIsForgone is used up step by step, and left to check-receipts at the first that fails.
func TestANonceThatIsForgone(t *testing.T) {
	for call, never := range map[string]string{"": "nothing", "Orphan#1": "PutNoop#1", "Ready#3": "PutNoop#1", "Sign#2": "PutNoop#1",
		"PutNoop#1": "Send#2"} {
		p := newProcess(t, breaks(call).With("Commit#1", elsewhere))
		if _, err := p.pay(); err != nil || p.Did(never) || p.Did("Send#2") != (call == "") {
			t.Errorf("%s fails: %v, after %v", call, err, p.Calls)
		}
	}
}

// A book is the address book of every merchant of a process.
type book struct {
	active token.Address
	err    error
	asked  int
}

func (b *book) Active(_ context.Context, _, _ string, to token.Address, _ time.Time) (bool, error) {
	b.asked++
	return to == b.active, b.err
}

// TestADayOfEachAsset: amounts of two assets never share a merchant's day, and the default's has no name.
func TestADayOfEachAsset(t *testing.T) {
	p := newProcess(t, nil)
	p.set(func(s *settings.Settings) { s.Daily = token.Units(150) })
	euro := porttest.Rail.Coin()
	for _, step := range []struct {
		key   string
		asset token.Coin
		want  error
	}{{"a", token.Coin{}, nil}, {"b", euro, nil}, {"c", euro, store.ErrDailyLimit}, {"d", token.Coin{}, store.ErrDailyLimit}} {
		r := asked
		r.IdempotencyKey, r.Asset = step.key, step.asset
		p.d.Further = step.asset == euro // as if another rail were the first
		if _, err := p.d.Send(t.Context(), r); !errors.Is(err, step.want) {
			t.Errorf("%s: %v, want %v", step.key, err, step.want)
		}
	}
	for _, name := range []string{"", euro.String()} {
		if sum, _, err := p.Tables.Charged(t.Context(), asked.Merchant, asked.Mode, name, p.Now()); err != nil || sum != asked.Amount {
			t.Errorf("%q was charged %v, %v", name, sum, err)
		}
	}
}

// TestLimitsOfAKey: a key's own limits refuse a payment before anything is stored, and never a payment that is made.
func TestLimitsOfAKey(t *testing.T) {
	for name, test := range map[string]struct {
		limits payment.KeyLimits
		book   book
		want   error
	}{
		"as much as is allowed":      {payment.KeyLimits{Maximum: asked.Amount}, book{}, nil},
		"more":                       {payment.KeyLimits{Maximum: token.Units(99)}, book{}, dispatch.ErrAmountAbove},
		"an active entry":            {payment.KeyLimits{Book: true}, book{active: asked.To}, nil},
		"no active entry":            {payment.KeyLimits{Book: true}, book{}, dispatch.ErrNotInBook},
		"a book that cannot be read": {payment.KeyLimits{Book: true}, book{active: asked.To, err: porttest.ErrBroken}, dispatch.ErrUnavailable},
		"a day with room": {payment.KeyLimits{Daily: payment.DailyLimit{Key: "key_a", Amount: asked.Amount, Count: 1}}, book{},
			nil},
		"a day that is over": {payment.KeyLimits{Daily: payment.DailyLimit{Key: "key_a", Amount: token.Units(99)}}, book{},
			store.ErrDailyLimit},
		"another asset than the key's": {payment.KeyLimits{OtherAsset: true}, book{}, dispatch.ErrOtherAsset},
		"the merchant's own maximum":   {payment.KeyLimits{MerchantMaximum: token.Units(99)}, book{}, dispatch.ErrAmountAbove},
		"the merchant's own day":       {payment.KeyLimits{MerchantDaily: token.Units(99)}, book{}, store.ErrDailyLimit},
		"both above the stack's":       {payment.KeyLimits{MerchantMaximum: asked.Amount, MerchantDaily: asked.Amount}, book{}, nil},
		"the merchant's day that is over": {payment.KeyLimits{Daily: payment.DailyLimit{Key: "key_a", Amount: asked.Amount},
			MerchantDaily: token.Units(99)}, book{}, store.ErrDailyLimit},
	} {
		p := newProcess(t, script{})
		p.set(func(s *settings.Settings) { s.Daily = token.Amount{} })
		if !test.limits.MerchantMaximum.IsZero() && !test.limits.MerchantDaily.IsZero() {
			p.set(func(s *settings.Settings) { s.Maximum, s.Daily = token.Units(50), token.Units(50) })
		}
		p.d.Book = &test.book
		r := asked
		r.Key = test.limits
		if _, err := p.d.Send(t.Context(), r); !errors.Is(err, test.want) || (p.stored().ID == "") != (test.want != nil) {
			t.Errorf("%s: %v, want %v; stored is %+v", name, err, test.want, p.stored())
		}
		if test.want == nil {
			continue
		}
		p.d.Book = &book{active: asked.To}
		made, err := p.pay() // by a key without limits
		p.Must(err)
		if again, err := p.d.Send(t.Context(), r); test.want != dispatch.ErrUnavailable &&
			(err != nil || !again.Replayed || again.Payment.TxHash != made.Payment.TxHash) {
			t.Errorf("%s: a replay is answered %+v, %v", name, again, err)
		}
	}
	p := newProcess(t, script{})
	asks := &book{}
	p.d.Book = asks
	if _, err := p.pay(); err != nil || asks.asked != 0 {
		t.Errorf("a key without a book: %v, and %d reads of one", err, asks.asked)
	}
	p.set(func(s *settings.Settings) { s.RequireKey = true })
	keyless := asked
	keyless.IdempotencyKey = ""
	if _, err := p.d.Send(t.Context(), keyless); !errors.Is(err, dispatch.ErrKeyMissing) {
		t.Errorf("a payment without the key that the stack requires: %v", err)
	}
}

// TestAnotherWalletIsTried: a payment moves on from a wallet that refuses it,
// and the refusal names the cause when all do.
func TestAnotherWalletIsTried(t *testing.T) {
	p := newProcess(t, script{"Reserve#1": pause(first)})
	if result, err := p.pay(); err != nil || result.Payment.Wallet != second || p.Record(walletOf(first)).NextNonce != 0 ||
		p.Did("Payment#1") {
		t.Errorf("answered %+v, %v, after %v", result, err, p.Calls)
	}
	if result, err := p.send("next"); err != nil || result.Payment.Wallet != second || p.Did("Reassign#2") {
		t.Errorf("the next payment is not given to the other wallet at once: %+v, %v, after %v", result, err, p.Calls)
	}
	p = newProcess(t, breaks("Ready#1"))
	for n := range 2 {
		if result, err := p.send(fmt.Sprint(n)); err != nil || result.Payment.Wallet != second || p.Times["Ready"] != 3+2*n {
			t.Errorf("after its key was out of reach: %+v, %v, after %v", result, err, p.Calls)
		}
	}
	spend := func(a token.Address) func(*process) error {
		return func(p *process) error {
			return p.Tables.Reconcile(context.Background(), p.Record(walletOf(a)), token.Units(99), token.Units(1<<60), nil, nil)
		}
	}
	for name, test := range map[string]struct {
		script script
		want   error
	}{
		"both have too little":                 {script{"Reserve#1": spend(first), "Reserve#2": spend(second)}, dispatch.ErrInsufficient},
		"one has too little, one is paused":    {script{"Reserve#1": spend(first), "Reserve#2": pause(second)}, dispatch.ErrUnavailable},
		"one is paused, the other is too poor": {script{"Reserve#1": pause(first), "Reserve#2": spend(second)}, dispatch.ErrUnavailable},
	} {
		p := newProcess(t, test.script)
		if _, err := p.pay(); !errors.Is(err, test.want) || p.stored().ID != "" {
			t.Errorf("%s: %v, stored is %+v", name, err, p.stored())
		}
		// The day is as it was: all of it can be charged.
		p.Must(p.Tables.Charge(t.Context(), day(5000, p.Now())))
	}
	p = newProcess(t, script{"Reserve#1": pause(first), "Reserve#2": pause(second)})
	p.set(func(s *settings.Settings) { s.Daily = token.Amount{} })
	if _, err := p.pay(); !errors.Is(err, dispatch.ErrUnavailable) || p.Did("Charge#1") || p.Did("Refund#1") {
		t.Errorf("without a limit: %v after %v", err, p.Calls)
	}
}

// TestAPauseIsNamed: a refusal says why wallets are paused.
func TestAPauseIsNamed(t *testing.T) {
	for reason, behind := range map[string]bool{"by hand": false, wallet.RolledBack + ": the nodes lack a block that was final": true} {
		stop := func(a token.Address) func(*process) error {
			return func(p *process) error { return p.Tables.Pause(t.Context(), walletOf(a), reason) }
		}
		p := newProcess(t, script{"Reserve#1": stop(first), "Reserve#2": stop(second)})
		if _, err := p.pay(); !errors.Is(err, dispatch.ErrUnavailable) || errors.Is(err, dispatch.ErrRolledBack) != behind ||
			!strings.Contains(err.Error(), reason) {
			t.Errorf("%s: %v", reason, err)
		}
	}
}

// TestGaps: a node that misses predecessors gets those of the wallet, and the bytes again, unless they cannot be read.
func TestGaps(t *testing.T) {
	for call, want := range map[string]int{"": 3, "PendingTxs#1": 1} {
		p := newProcess(t, breaks("Send#1", call))
		p.keys = p.keys[:1]
		must.Get(p.pay())(t)
		p.reply = chain.Gap
		_, err := p.send("next")
		if err != nil || len(p.sent) != want {
			t.Errorf("%q breaks: %v, sent %q", call, err, p.sent)
		}
		before, _ := p.Tables.PendingTx(t.Context(), walletOf(first), 0)
		if want > 1 && string(p.sent[1]) != string(before.Raw) {
			t.Errorf("sent %q, want %q between", p.sent, before.Raw)
		}
	}
}

// TestTheLessLoadedWalletPays: a process remembers which wallets can pay.
func TestTheLessLoadedWalletPays(t *testing.T) {
	p := newProcess(t, script{})
	p.poor = first
	must.Get(p.send("the process is cold"))(t)
	before := p.Times["Estimate"]
	if result, err := p.pay(); err != nil || result.Payment.Wallet != second || p.Times["Estimate"] != before+1 {
		t.Errorf("a wallet without the token is tried: %+v, %v, after %v", result, err, p.Calls)
	}
}

// TestAnotherProcessKnowsTheWallets: a process that starts on tables with
// payments reads each wallet once, and knows which of them are paused.
func TestAnotherProcessKnowsTheWallets(t *testing.T) {
	earlier := newProcess(t, script{})
	for n, want := range earlier.keys {
		if result, err := earlier.send(fmt.Sprint(n)); err != nil || result.Payment.Wallet != want {
			t.Fatal(result, err)
		}
	}
	earlier.Must(pause(second)(earlier))
	for _, mined := range []uint64{0, 1} {
		p := start(t, earlier.Tables, script{})
		p.mined = mined
		must.Get(p.send(fmt.Sprint("cold ", mined)))(t)
		p.Must(p.Tables.RaiseCeiling(t.Context(), walletOf(first), 9))
		if result, err := p.send(fmt.Sprint("next ", mined)); err != nil || result.Payment.Wallet != first || p.Times["Wallet"] != 2 ||
			p.Did("Reassign#1") {
			t.Errorf("%d mined: wallet %v pays, %v, after %v", mined, result.Payment.Wallet, err, p.Calls)
		}
	}
}

// TestAWalletThatCannotBeHeldAgainstTheChain stops a process that starts.
func TestAWalletThatCannotBeHeldAgainstTheChain(t *testing.T) {
	earlier := newProcess(t, script{})
	earlier.keys = earlier.keys[:1]
	must.Get(earlier.pay())(t)
	for calls, want := range map[string]error{"Wallet#1 Wallet#2": porttest.ErrBroken, "Account#1 Account#2": porttest.ErrBroken,
		"Wallet#2 Wallet#4": porttest.ErrBroken, "": wallet.ErrBehind} {
		p := start(t, earlier.Tables, breaks(strings.Fields(calls)...))
		p.keys, p.mined = p.keys[:1], 2 // one more than was given out
		if _, err := p.send("next"); !errors.Is(err, dispatch.ErrUnavailable) || !errors.Is(err, want) || p.Did("Reserve#1") ||
			!p.Did("Discard#1") {
			t.Errorf("%q fail: %v, want %v, after %v", calls, err, want, p.Calls)
		}
	}
}

// TestPaymentsSinceTheWalletWasRead do not make it look behind the chain.
func TestPaymentsSinceTheWalletWasRead(t *testing.T) {
	p := newProcess(t, script{"Account#1": func(p *process) error {
		p.mined = 1
		_, err := p.Tables.Reserve(context.Background(), wallet.Need{Wallet: walletOf(first), Payment: "pay_other", At: p.Now()})
		return err
	}})
	p.keys = p.keys[:1]
	p.open(first)
	if _, err := p.pay(); err != nil || !p.Did("Wallet#2") || p.Did("Account#2") {
		t.Errorf("%v, after %v", err, p.Calls)
	}
}

// TestQuotesAreKept for a block: the price is asked for again when a block's time has gone by, not before.
func TestQuotesAreKept(t *testing.T) {
	p := newProcess(t, script{})
	for n, step := range []struct {
		pass  time.Duration
		asked bool
	}{{0, true}, {time.Minute - 1, false}, {1, true}, {dispatch.RegistryAge - time.Minute - 1, true}, {1, false}} {
		p.Pass(step.pass)
		before, read := p.Times["Fees"], p.Times["Wallets"]
		if _, err := p.send(fmt.Sprint(n)); err != nil || p.Times["Fees"] > before != step.asked || p.Times["Wallets"] > read != (n%4 == 0) {
			t.Errorf("request %d: %v, asked for the price %v, after %v", n, err, p.Times["Fees"] > before, p.Calls)
		}
	}
	if p.Times["Compared"] != 1 {
		t.Errorf("%d startup checks", p.Times["Compared"])
	}
}

// TestFoundOnTheChain: a payment that only the chain had is its merchant's once a request shows the key: it must have
// the same recipient and amount. Then the payment is in the merchant's list, with the reference of that request.
func TestFoundOnTheChain(t *testing.T) {
	found := func(s script, commit bool) *process {
		p := newProcess(t, s)
		offer := payment.New(payment.KeyID(asked.Merchant, asked.Mode, asked.IdempotencyKey), asked, porttest.Rail.Token, "", p.Now())
		mined := chain.MinedTx{From: first, To: porttest.Rail.Token.Contract, Data: string(offer.CallData(true)), At: p.Now()}
		stored, _ := onchain.Payment(mined, 1, porttest.Rail.Token, "")
		_, _, err := p.Tables.Create(t.Context(), stored)
		p.Must(err)
		if commit {
			committed, err := stored.Commit(chain.Signed{Nonce: 7, Hash: chain.Hash{7}, Raw: []byte{}}, p.Now())
			p.Must(err)
			p.Must(p.Tables.Commit(t.Context(), committed))
		}
		return p
	}
	faster := func(p *process) error { _, err := start(t, p.Tables, script{}).pay(); return err }
	request := asked
	request.Reference = "order 1"
	p := found(script{}, true)
	for name, other := range map[string]payment.Request{
		"another recipient": {Merchant: asked.Merchant, Mode: asked.Mode, IdempotencyKey: asked.IdempotencyKey, To: token.Address{8},
			Amount: asked.Amount},
		"another amount": {Merchant: asked.Merchant, Mode: asked.Mode, IdempotencyKey: asked.IdempotencyKey, To: asked.To,
			Amount: token.Units(101)},
	} {
		if _, err := p.d.Send(t.Context(), other); !errors.Is(err, dispatch.ErrKeyReused) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, other := range map[string]stack.Config{
		"another chain": {ChainID: 2, Token: porttest.Rail.Token},
		"another token": {ChainID: 1, Token: token.Token{Contract: token.Address{0xe0}}},
	} {
		if _, err := dispatch.New(other, p.d.Parts).Send(t.Context(), request); !errors.Is(err, dispatch.ErrKeyReused) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for range 2 {
		if result, err := p.d.Send(t.Context(), request); err != nil || !result.Replayed || result.Payment.TxHash != (chain.Hash{7}) ||
			result.Payment.Reference != "order 1" || result.Payment.Version != 2 || *result.Payment.Public().Key != asked.IdempotencyKey {
			t.Errorf("%+v, %v", result, err)
		}
	}
	if _, err := p.pay(); !errors.Is(err, dispatch.ErrKeyReused) {
		t.Errorf("without the reference: %v", err)
	}
	page, _, err := p.Tables.List(t.Context(), store.Filter{Merchant: asked.Merchant, Mode: asked.Mode})
	if err != nil || len(page) != 1 || page[0].IdempotencyKey != asked.IdempotencyKey {
		t.Errorf("the list has %+v, %v", page, err)
	}
	for name, p := range map[string]*process{
		"not committed yet":                found(script{}, false),
		"the write is unknown":             found(breaks("Adopt#1"), true),
		"and so is another request's read": found(breaks("Payment#1").With("Adopt#1", faster), true),
	} {
		if result, err := p.d.Send(t.Context(), request); !errors.Is(err, dispatch.ErrInProgress) || len(p.sent) > 0 {
			t.Errorf("%s: %+v, %v", name, result, err)
		}
	}
	if result, err := found(script{"Adopt#1": faster}, true).pay(); err != nil || result.Payment.TxHash != (chain.Hash{7}) {
		t.Errorf("another request was faster: %+v, %v", result, err)
	}
}

// TestCommitsThatFailAreTold: a request whose every commit fails reports that to the meter and to
// the log, and a request that another process overtakes does not.
func TestCommitsThatFailAreTold(t *testing.T) {
	calls := []string{}
	for n := range 20 {
		calls = append(calls, fmt.Sprint("Commit#", n+1))
	}
	for name, test := range map[string]struct {
		script script
		told   bool
	}{"a right is missing": {breaks(calls...), true}, "another process commits first": {script{"Commit#1": overtake}, false}} {
		p := newProcess(t, test.script)
		var log bytes.Buffer
		p.d.Log = slog.New(slog.NewTextHandler(&log, nil))
		_, err := p.pay()
		if errors.Is(err, dispatch.ErrCommit) != test.told || errors.Is(err, dispatch.ErrInProgress) != test.told ||
			errors.Is(err, dispatch.ErrWaiting) || strings.Contains(log.String(), `level=ERROR msg="commit failed"`) != test.told {
			t.Errorf("%s: %v, and the log has %s", name, err, &log)
		}
	}
}
