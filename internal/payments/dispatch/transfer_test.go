package dispatch_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/dispatch"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/porttest"
)

// funding is the funding wallet of a process that refills the others.
var funding = token.Address{0xfd}

// refilling returns a process that refills wallets with 50 tokens or 7 wei.
func refilling(t *testing.T, s script) *process {
	p := newProcess(t, s)
	p.keys = append(p.keys, funding)
	p.set(func(s *settings.Settings) {
		s.Refills.Token = settings.Refill{Low: unit(60), Amount: unit(50), Daily: unit(200)}
		s.Refills.Ether = settings.Refill{Low: unit(60), Amount: unit(7), Daily: unit(14)}
	})
	return p
}

// nonces is how many nonces all wallets have reserved.
func (p *process) nonces() (n uint64) {
	for _, a := range p.keys {
		w, _ := p.Tables.Wallet(p.T.Context(), walletOf(a))
		n += w.NextNonce
	}
	return n
}

// TestEveryFailureOfATransferIsAnswered: whichever call of a transfer fails, its answer is
// true, and the next call makes the transfer, once.
func TestEveryFailureOfATransferIsAnswered(t *testing.T) {
	move := func(change func(*dispatch.Transfer)) func(p *process) error {
		return func(p *process) error { return p.move(change).err }
	}
	for name, order := range map[string]func(p *process) error{
		"tokens":          move(func(t *dispatch.Transfer) { t.Daily = unit(120) }),
		"all tokens":      move(func(t *dispatch.Transfer) { t.Amount = token.Amount{} }),
		"all ether":       move(func(t *dispatch.Transfer) { t.Amount, t.Ether = token.Amount{}, true }),
		"a call":          move(calls("approve")),
		"a token refill":  func(p *process) error { return p.d.Refill(t.Context(), second, false, 9) },
		"an ether refill": func(p *process) error { return p.d.Refill(t.Context(), second, true, 9) },
	} {
		fair := refilling(t, script{})
		if fair.Must(order(fair)); fair.nonces() != 1 {
			t.Errorf("%s: %d nonces after %v", name, fair.nonces(), fair.Calls)
		}
		calls := slices.Clone(fair.Calls)
		fair.Script["Nodes#2"] = func(*process) error { return porttest.ErrBroken }
		if err := order(fair); errors.Is(err, dispatch.ErrUnavailable) {
			t.Errorf("%s: made, and repeated without nodes: %v", name, err)
		}
		for _, call := range calls {
			p := refilling(t, breaks(call))
			err := order(p)
			begun, known := errors.Is(err, dispatch.ErrInProgress), errors.Is(err, porttest.ErrBroken)
			unopened := strings.HasPrefix(call, "Open") && errors.Is(err, wallet.ErrUnknown) // its error is in the log
			switch {
			case call == "Payment#1" && (err == nil || !strings.HasSuffix(name, "refill") && !begun), err != nil && !known && !unopened,
				err != nil && !begun && p.nonces() > 0, // nothing was started, or the answer says so
				!begun && errors.Is(err, dispatch.ErrUnavailable) && p.Did("Create#1") && !p.Did("Discard#1"):
				t.Errorf("%s: %s fails: %v, after %v", name, call, err, p.Calls)
			}
			p.Pass(handlerLife)
			if err := order(p); err != nil || p.nonces() != 1 {
				t.Errorf("%s: after %s failed: %v, %d nonces, after %v", name, call, err, p.nonces(), p.Calls)
			}
		}
	}
}

// TestTransferOfAll: of ether, or of the token that pays the gas, less twice the highest fee.
func TestTransferOfAll(t *testing.T) {
	p := newProcess(t, script{})
	made := p.move(func(t *dispatch.Transfer) { t.Amount, t.Ether = token.Amount{}, true }).is("all ether", nil).Payment
	fee := made.Tx
	fee.Value = token.Amount{}
	if want := unit(1 << 60).Sub(fee.Cost().ScaleUp(2, 1)); made.Amount != want || made.Tx.Value != want ||
		made.Metadata["amount"] != "all" || p.move(func(t *dispatch.Transfer) { t.Key = "some" }).Payment.Metadata["amount"] != "" {
		t.Errorf("%+v, want %v wei", made, want)
	}
	all := func(t *dispatch.Transfer) { t.Amount = token.Amount{} }
	p = newProcess(t, nil)
	p.d.GasUnit = 10_000
	made = p.move(all).is("all of the token that is the gas", nil).Payment
	if coin, _ := made.Tx.Takes(token.Amount{}); coin.Less(unit(2)) || made.Amount != unit(1000).Sub(coin.ScaleUp(2, 1)) {
		t.Errorf("%+v, want two fees of %s less", made, coin)
	}
	p = newProcess(t, nil)
	p.open(first)
	p.holds = unit(999)
	p.move(all).is("all, and one has gone", dispatch.ErrInsufficient)
}

// calls makes an order a call that moves nothing.
func calls(data string) func(*dispatch.Transfer) {
	return func(t *dispatch.Transfer) { t.Amount, t.Ether, t.Call = token.Amount{}, true, []byte(data) }
}

// TestOrders: an order's call, and a further rail's asset, are a part of what its key means. None loses coins, or moves
// ether where the token pays the gas.
func TestOrders(t *testing.T) {
	p := newProcess(t, nil)
	ordered := func(what, key string, to token.Address, want error, change func(*dispatch.Transfer)) payment.Payment {
		t.Helper()
		return p.move(func(t *dispatch.Transfer) { t.Key, t.To = key, to; change(t) }).is(what, want).Payment
	}
	tokens, ether := func(*dispatch.Transfer) {}, func(t *dispatch.Transfer) { t.Ether = true }
	ordered("tokens to the token", "k", porttest.Rail.Token.Contract, dispatch.ErrRecipient, tokens)
	ordered("a call of the token", "call", porttest.Rail.Token.Contract, nil, calls("approve"))
	ordered("other bytes", "call", porttest.Rail.Token.Contract, dispatch.ErrKeyReused, calls("revoke"))
	made := ordered("tokens", "tokens", asked.To, nil, tokens)
	if unnamed := (payment.Request{To: made.To, Amount: made.Amount, Metadata: made.Metadata}); p.Did("Charge#1") ||
		unnamed.Fingerprint() != made.Fingerprint {
		t.Errorf("the first rail's names its asset, or it was charged without a limit: %+v", made)
	}
	p.d.Further = true
	ordered("of a further rail", "tokens", asked.To, dispatch.ErrKeyReused, tokens)
	ordered("its day", "day", asked.To, nil, func(t *dispatch.Transfer) { t.Daily = unit(50) })
	day := "refill/" + porttest.Rail.Coin().String() + "/USDC"
	if sum, _, _ := p.Tables.Charged(t.Context(), payment.Operator, "test", day, p.Now()); sum != unit(50) {
		t.Errorf("its day has %v", sum)
	}
	p = newProcess(t, nil)
	p.d.GasUnit = 1 << 40
	ordered("ether that is not there", "k", asked.To, dispatch.ErrUnavailable, ether)
	ordered("with a call", "k", asked.To, dispatch.ErrUnavailable, func(t *dispatch.Transfer) { ether(t); t.Call = []byte("buy") })
	ordered("a call alone", "call", asked.To, nil, calls("approve"))
	ordered("tokens", "tokens", asked.To, nil, tokens)
	p = start(t, p.Tables, nil)
	p.mined = 9
	ordered("by tables that lack payments", "k", asked.To, wallet.ErrBehind, tokens)
}

// TestTwoOperators give orders under one key at once: an order is made and charged once, and another one is not made.
func TestTwoOperators(t *testing.T) {
	for amount, want := range map[uint64]error{50: nil, 40: dispatch.ErrKeyReused} {
		p := newProcess(t, script{"Create#1": func(p *process) error {
			return start(t, p.Tables, script{}).move(func(t *dispatch.Transfer) { t.Amount = unit(amount) }).err
		}})
		p.move(func(t *dispatch.Transfer) { t.Daily = unit(50) }).is("the slower one", want).without("Charge#1")
		if p.nonces() != 1 {
			t.Errorf("after one of %d: %d nonces", amount, p.nonces())
		}
	}
}

// TestATransferThatFindsTheCeiling: a transfer that is given no nonce in any round takes nothing from its day.
func TestATransferThatFindsTheCeiling(t *testing.T) {
	p := newProcess(t, script{})
	for n := range 20 { // others are faster, each time that the ceiling is raised
		p.Script[fmt.Sprint("Reserve#", n+1)] = func(p *process) error {
			for i := 0; ; i++ {
				if _, err := p.Tables.Reserve(t.Context(),
					wallet.Need{Wallet: walletOf(first), Payment: payment.ID(fmt.Sprint(n, i)), At: p.Now()}); err != nil {
					p.mined++
					return nil
				}
			}
		}
	}
	for n := range 2 {
		p.move(func(t *dispatch.Transfer) { t.Daily = unit(50) }).is("at the ceiling", wallet.ErrCeiling)
		if p.Pass(handlerLife); p.Times["Reserve"] != 8*(n+1) {
			t.Errorf("%d reservations", p.Times["Reserve"])
		}
	}
}

// TestRefill: the refills of a wallet follow each other. None is asked for while the last one
// may be under way, or arrived after the wallet was seen to lack it.
func TestRefill(t *testing.T) {
	p := newProcess(t, script{})
	refill := func(seen uint64) error { return p.d.Refill(t.Context(), second, false, seen) }
	number := func(symbol, n string) payment.Payment {
		stored, _ := p.Tables.Payment(t.Context(), payment.KeyID(payment.Operator, "", "refill/"+second.String()+"/"+symbol+"/"+n))
		return stored
	}
	if err := refill(9); !errors.Is(err, dispatch.ErrUnavailable) || p.Did("Wallets#1") {
		t.Errorf("without an amount: %v", err)
	}
	p = refilling(t, breaks("Reserve#1"))
	p.keys = p.keys[:2]
	if err := refill(9); !errors.Is(err, dispatch.ErrUnavailable) || p.Did("Payment#1") {
		t.Errorf("without a funding wallet: %v, after %v", err, p.Calls)
	}
	p.keys = append(p.keys, funding)
	for _, step := range []struct {
		why    string
		after  time.Duration
		before func()
		seen   uint64
		nonces uint64
	}{
		{"its reservation is unknown", 0, func() {}, 9, 0},
		{"another process may be at it", handlerLife - 1, func() {}, 9, 0},
		{"none is", 1, func() { p.set(func(s *settings.Settings) { s.Refills.Token.Amount = unit(60) }) }, 9, 1},
		{"it holds a nonce", time.Hour, func() {}, 9, 1},
		{"it is sent", 0, func() {
			signed := chain.Signed{Nonce: 0, Hash: chain.Hash{1}, Raw: []byte{1}}
			p.Must(p.Tables.Commit(t.Context(), must.Get(number("USDC", "1").Commit(signed, p.Now()))(t)))
		}, 9, 1},
		{"it arrived later", 0, func() {
			made := must.Get(number("USDC", "1").Confirm(chain.Receipt{Tx: chain.Hash{1}, Block: 9}, p.Now()))(t)
			p.Must(p.Tables.Finish(t.Context(), made))
		}, 8, 1},
		{"it arrived before", 0, func() {}, 9, 2},
	} {
		p.Pass(step.after)
		step.before()
		if err := refill(step.seen); err != nil || p.nonces() != step.nonces {
			t.Errorf("%s: %v, %d nonces, want %d; after %v", step.why, err, p.nonces(), step.nonces, p.Calls)
		}
	}
	p.Must(p.d.Refill(t.Context(), second, true, 9))
	if ether := number("ETH", "1"); ether.Amount != unit(7) || !ether.Ether() {
		t.Errorf("refilled with ether by %+v", ether)
	}
	if one, two := number("USDC", "1"), number("USDC", "2"); one.Amount != unit(50) || one.Wallet != funding ||
		two.Amount != unit(60) {
		t.Errorf("refilled by %+v, then %+v", one, two)
	}
	p.Must(owning(p)) // it is refilled with ether only, and an operator may move its coins
	p.Pass(time.Hour)
	for ether, want := range map[bool]error{true: nil, false: dispatch.ErrUnavailable} {
		if err := p.d.Refill(t.Context(), own, ether, 9); !errors.Is(err, want) {
			t.Errorf("a merchant's own, ether %t: %v", ether, err)
		}
	}
	p.move(func(t *dispatch.Transfer) { t.From = own }).is("of a merchant's own", nil).by(own)
}

// TestGasAccount: nobody is paid where the token's logs move fees, since receipts would not show it.
func TestGasAccount(t *testing.T) {
	p := newProcess(t, script{})
	p.d.Gas.Account = asked.To
	p.ask("k").is("paid", dispatch.ErrRecipient)
	p.move(nil).is("moved", dispatch.ErrRecipient)
}
