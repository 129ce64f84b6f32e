package dispatch_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/dispatch"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/porttest"
	"github.com/remit-payouts/remit/internal/sandbox/memory"
)

// four returns a process with four wallets, of which the token pays nobody from
// the first: every transfer from it reverts.
func four(t *testing.T) *process {
	p := newProcess(t, script{})
	p.keys = append(p.keys, token.Address{3}, token.Address{4})
	p.unable = []token.Address{first}
	return p
}

// TestAWalletThatTheTokenBlocksIsPaused after five minutes, and not when the token
// pays from it in between, nor over another reason.
func TestAWalletThatTheTokenBlocksIsPaused(t *testing.T) {
	for name, test := range map[string]struct {
		at   func(p *process, minute int)
		want string
	}{
		"it lasts": {func(*process, int) {}, "blocked: the token pays nobody from it"},
		"it ends in between": {func(p *process, minute int) {
			p.unable = []token.Address{first}
			if minute == 3 {
				p.unable = nil
			}
		}, ""},
		"an operator has paused it": {func(p *process, minute int) {
			if minute == 3 {
				p.Must(pause(first)(p))
			}
		}, "by hand"},
	} {
		p := four(t)
		p.keys = p.keys[:2]
		p.set(func(s *settings.Settings) { s.Daily = token.Amount{} })
		for minute := range 6 {
			test.at(p, minute)
			if _, err := p.send(fmt.Sprint(minute)); err != nil {
				t.Errorf("%s: payment %d: %v", name, minute, err)
			}
			p.Must(p.Tables.RaiseCeiling(t.Context(), walletOf(second), p.Record(walletOf(second)).NextNonce+4))
			p.Pass(time.Minute)
		}
		if got := p.Record(walletOf(first)).Paused; got != test.want {
			t.Errorf("%s: paused for %q, want %q", name, got, test.want)
		}
	}
}

// TestNoAnswerIsNoReason: a transfer reverts, and the node is silent when it is asked
// why. Neither the wallet nor the recipient is to blame for all that is known.
func TestNoAnswerIsNoReason(t *testing.T) {
	batch := asked
	batch.To, batch.Entries = token.Address{}, []payment.Entry{{To: token.Address{8}, Amount: token.Units(50)},
		{To: asked.To, Amount: token.Units(50)}}
	for _, row := range []struct {
		r    payment.Request
		mute int // the simulated call: after the payment's own, to the wallet itself, and then of a part
		call string
	}{{asked, 2, ""}, {batch, 2, ""}, {batch, 3, ""}, {asked, 0, "Account#1"}} {
		p := four(t)
		p.refuses, p.mute, p.Script = []token.Address{asked.To}, row.mute, breaks(row.call)
		if _, err := p.d.Send(t.Context(), row.r); !errors.Is(err, dispatch.ErrUnavailable) || errors.Is(err, dispatch.ErrRecipient) {
			t.Errorf("silent at call %d%s: %v", row.mute, row.call, err)
		}
	}
}

// TestAPaymentIsSimulatedForTheWalletItMovesTo: it is not given to a wallet from which it would revert.
func TestAPaymentIsSimulatedForTheWalletItMovesTo(t *testing.T) {
	third := token.Address{3}
	for name, test := range map[string]struct {
		change func(p *process)
		want   token.Address // zero: refused
	}{
		"the token pays nobody from the second":   {func(p *process) { p.unable = []token.Address{second} }, third},
		"the contract may not spend the second's": {func(p *process) { p.unapproved = []token.Address{second} }, third},
		"the second has too little":               {func(p *process) { p.poor = second }, third},
		"the second's key is away":                {func(p *process) { p.Script = breaks("Ready#3").With("Reserve#1", pause(first)) }, third},
		"the node is silent":                      {func(p *process) { p.mute = 2 }, token.Address{}},
	} {
		p := newProcess(t, script{"Reserve#1": pause(first)})
		p.keys = append(p.keys, third)
		test.change(p)
		result, err := p.d.Send(t.Context(), batchOf(5, 6))
		if result.Payment.Wallet != test.want || (err != nil) != test.want.IsZero() || p.asked > 5 ||
			err != nil && !strings.Contains(err.Error(), "moving to") {
			t.Errorf("%s: answered %+v, %v, after %v", name, result, err, p.Calls)
		}
	}
}

// TestATokenThatPaysNobody is no reason for a cooldown, and costs a request the
// simulations of four wallets, however many there are, and one without the memo.
func TestATokenThatPaysNobody(t *testing.T) {
	p := newProcess(t, script{})
	for n := range 10 {
		p.keys = append(p.keys, token.Address{3, byte(n)})
	}
	p.unable = slices.Clone(p.keys)
	for n := range 2 {
		if _, err := p.send(fmt.Sprint(n)); !errors.Is(err, dispatch.ErrUnavailable) || p.blocked != 5*(n+1) {
			t.Errorf("%v after %d simulations", err, p.blocked)
		}
	}
	p.unable = nil
	if result, err := p.pay(); err != nil || result.Payment.Wallet != first {
		t.Errorf("once it pays again: %+v, %v", result, err)
	}
}

// TestATokenThatRefusesTheMemo: nothing is stored, no wallet is in cooldown, and the error says
// which setting to change. Without the memo the payment is made.
func TestATokenThatRefusesTheMemo(t *testing.T) {
	p := newProcess(t, script{})
	p.strict = true
	_, err := p.pay()
	if !errors.Is(err, dispatch.ErrUnavailable) || !strings.Contains(fmt.Sprint(err), "settings set Memo=off") || p.Did("Create#1") {
		t.Errorf("%v, after %v", err, p.Calls)
	}
	p.set(func(s *settings.Settings) { s.MemoOff = true })
	if result, err := p.pay(); err != nil || result.Payment.Memo() || result.Payment.Wallet != first {
		t.Errorf("with Memo=off: %+v, %v", result, err)
	}
	p.strict = false
	p.set(func(s *settings.Settings) { s.MemoOff = false })
	result, err := p.send("k2")
	if data := result.Payment.Tx.Data; err != nil || len(data) != 68+20 ||
		!bytes.HasSuffix(data, payment.KeyID("mer_1", "test", "k2").Memo()) {
		t.Errorf("call data is %x, %v", data, err)
	}
}

// TestAForeignWalletStopsNoOther: a key that another program uses is left out, and is opened once that has ended.
// Where no wallet has a record, all wait for it: the tables may be lost, and the other program may be this stack.
func TestAForeignWalletStopsNoOther(t *testing.T) {
	p := newProcess(t, script{})
	p.foreign = first
	if _, err := p.pay(); !errors.Is(err, wallet.ErrForeign) || p.Did("Open#1") {
		t.Errorf("where the tables know no wallet: %v", err)
	}
	p = newProcess(t, script{})
	p.foreign = first
	p.open(second)
	for n := range 3 {
		if result, err := p.send(fmt.Sprint(n)); err != nil || result.Payment.Wallet != second {
			t.Errorf("payment %d: wallet %v, %v", n, result.Payment.Wallet, err)
		}
	}
	if p.Times["Account"] != 3 { // of the startup check, and before the first payment moved to the second wallet
		t.Errorf("%d looks at two wallets within a minute", p.Times["Account"])
	}
	p.foreign = token.Address{}
	p.Pass(time.Minute)
	if result, err := p.send("later"); err != nil || result.Payment.Wallet != first {
		t.Errorf("once it is free: wallet %v, %v", result.Payment.Wallet, err)
	}
}

// TestAWalletIsOpenedOnceThePausesOfOthersAreKnown: it would be paused with them.
func TestAWalletIsOpenedOnceThePausesOfOthersAreKnown(t *testing.T) {
	p := newProcess(t, breaks("Wallets#2", "Wallets#3")) // the lists for the pauses
	p.open(second)
	if result, err := p.pay(); err != nil || result.Payment.Wallet != second || p.Did("Open#1") {
		t.Errorf("wallet %v, %v, after %v", result.Payment.Wallet, err, p.Calls)
	}
}

// opened returns the tables and the keys of 500 wallets that have paid nothing.
func opened(t *testing.T) (tables *memory.Payments, keys []token.Address) {
	tables = memory.NewPayments()
	for n := range 500 {
		a := token.Address{3, byte(n >> 8), byte(n)}
		keys = append(keys, a)
		must.OK(t, tables.Open(t.Context(), wallet.Wallet{ID: walletOf(a), Ceiling: 4, Balance: token.Units(1000),
			Gas: token.Units(1 << 60)}, porttest.Rail.Token.Contract))
	}
	return tables, keys
}

// TestColdProcess: where a run of check-receipts has compared 500 wallets lately, the first payment of a process
// takes four round trips to the store in sequence and two to the nodes, and asks no node for a wallet.
func TestColdProcess(t *testing.T) {
	const read = time.Second + 2*time.Millisecond - 1 // after the start of the request the comparison is
	for _, test := range []struct {
		age      time.Duration
		believed bool
	}{{-5*time.Second - 1, false}, {-5 * time.Second, true}, {90*time.Second - 1, true}, {90 * time.Second, false}} {
		synctest.Test(t, func(t *testing.T) {
			tables, keys := opened(t)
			p := start(t, tables, script{})
			p.keys = keys
			p.set(func(s *settings.Settings) { s.Daily = token.Amount{} })
			p.Must(tables.SetCompared(t.Context(), porttest.Rail.Coin(), store.Comparison{At: p.Now().Add(read - test.age)}))
			p.Delays = map[string]time.Duration{}
			for _, op := range []string{"Estimate", "Fees", "Account", "Head", "Count", "Send"} {
				p.Delays[op] = time.Second
			}
			for _, op := range []string{"Wallets", "Compared", "Wallet", "Open", "Create", "Payment", "Reserve", "Reassign", "Commit", "Release"} {
				p.Delays[op] = time.Millisecond
			}
			p.Delays["Wallets"]--
			var log bytes.Buffer
			p.d.Log = slog.New(slog.NewTextHandler(&log, nil))
			began := time.Now()
			p.d.Now = func() time.Time { return p.Now().Add(time.Since(began)) }
			_, err := p.pay()
			if phases := "ms.simulate=1000 ms.store=1 ms.reserve=1 ms.commit=1 ms.broadcast=1000"; test.believed &&
				!strings.Contains(log.String(), phases) {
				t.Errorf("logged %s, want %s", &log, phases)
			}
			if took := time.Since(began); err != nil || (took == 2*time.Second+4*time.Millisecond-1) != test.believed ||
				p.Did("Account#1") == test.believed {
				t.Errorf("compared %v ago: %v, took %v", test.age, err, took)
			}
		})
	}
}
