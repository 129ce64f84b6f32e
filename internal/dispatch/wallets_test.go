package dispatch_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"remit/internal/dispatch"
	"remit/internal/payment"
	"remit/internal/token"
	"remit/internal/wallet"
)

// four returns a process with four wallets, of which the token pays nobody from
// the first: every transfer from it reverts.
func four(t *testing.T) *process {
	p := newProcess(t, script{})
	p.keys = append(p.keys, token.Address{3}, token.Address{4})
	p.unable = []token.Address{first}
	return p
}

// TestAWalletThatTheTokenBlocks costs no payment: another wallet makes it. The
// blocked one rests for a minute each time, and is paused with its reason when
// that lasts; when the token pays from it again before, it is used again.
func TestAWalletThatTheTokenBlocks(t *testing.T) {
	p := four(t)
	p.d.Daily = token.Amount{}
	for n := range 400 {
		if result, err := p.send(fmt.Sprint(n)); err != nil || result.Payment.Wallet == first {
			t.Fatalf("payment %d: wallet %v, %v", n, result.Payment.Wallet, err)
		}
		for _, a := range p.keys {
			p.must(p.tables.RaiseCeiling(t.Context(), walletOf(a), 1<<20))
			p.must(p.tables.Reconcile(t.Context(), walletOf(a), p.record(a).NextNonce, token.Units(1000), token.Units(1<<60)))
		}
	}
	if p.blocked != 1 {
		t.Errorf("%d simulations for the blocked wallet within a minute", p.blocked)
	}
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
				p.must(pause(first)(p))
			}
		}, "by hand"},
	} {
		p := four(t)
		p.keys = p.keys[:2]
		p.d.Daily = token.Amount{}
		for minute := range 6 {
			test.at(p, minute)
			if _, err := p.send(fmt.Sprint(minute)); err != nil {
				t.Errorf("%s: payment %d: %v", name, minute, err)
			}
			p.must(p.tables.RaiseCeiling(t.Context(), walletOf(second), 1<<20))
			p.now = p.now.Add(time.Minute)
		}
		if got := p.record(first).Paused; got != test.want {
			t.Errorf("%s: paused for %q, want %q", name, got, test.want)
		}
	}
}

// TestAPaymentIsSimulatedForTheWalletItMovesTo: it is not given to a wallet from
// which it would revert.
func TestAPaymentIsSimulatedForTheWalletItMovesTo(t *testing.T) {
	p := newProcess(t, script{"Reserve#1": pause(first)})
	p.unable = []token.Address{second}
	if result, err := p.pay(); err == nil || p.did("Reserve#2") || p.stored().ID != "" {
		t.Errorf("answered %+v, %v, after %v", result, err, p.calls)
	}
	p = newProcess(t, script{"Reserve#1": pause(first)})
	p.keys, p.unable = append(p.keys, token.Address{3}), []token.Address{second}
	if result, err := p.pay(); err != nil || result.Payment.Wallet == second {
		t.Errorf("answered %+v, %v, after %v", result, err, p.calls)
	}
}

// TestATokenThatPaysNobody is no reason to rest a wallet, and costs a request the
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

// TestATokenThatRefusesTheMemo: nothing is stored, no wallet rests, and the error says
// which parameter to change. Without the memo the payment is made.
func TestATokenThatRefusesTheMemo(t *testing.T) {
	p := newProcess(t, script{})
	p.strict = true
	_, err := p.pay()
	if !errors.Is(err, dispatch.ErrUnavailable) || !strings.Contains(fmt.Sprint(err), "set the parameter Memo to off") || p.did("Create#1") {
		t.Errorf("%v, after %v", err, p.calls)
	}
	p.d.MemoOff = true
	if result, err := p.pay(); err != nil || result.Payment.Memo() || result.Payment.Wallet != first {
		t.Errorf("with Memo=off: %+v, %v", result, err)
	}
	p.d.MemoOff, p.strict = false, false
	result, err := p.send("k2")
	if data := result.Payment.Tx.Data; err != nil || len(data) != 68+20 || !bytes.HasSuffix(data, payment.KeyID("mer_1", "test", "k2").Memo()) {
		t.Errorf("call data is %x, %v", data, err)
	}
}

// TestTakenUpWhileTheChainIsAhead: a payment that restored tables show as prepared may
// have been made since. A request under its key does not make it, and is not told
// that nothing was started.
func TestTakenUpWhileTheChainIsAhead(t *testing.T) {
	earlier := newProcess(t, breaks("Reserve#1", "Payment#1"))
	if _, err := earlier.pay(); !errors.Is(err, dispatch.ErrInProgress) {
		t.Fatal(err)
	}
	p := start(t, earlier.tables, script{})
	p.mined = 5
	if result, err := p.pay(); !errors.Is(err, wallet.ErrBehind) || !errors.Is(err, dispatch.ErrInProgress) || p.did("Reserve#1") {
		t.Errorf("%+v, %v, after %v", result, err, p.calls)
	}
}
