package dispatch_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/dispatch"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// each changes the records of 200 opened wallets but one.
func (p *process) each(but token.Address, change func(wallet.Wallet) error) {
	for _, a := range p.keys {
		if a != but {
			p.Must(change(p.Record(walletOf(a))))
		}
	}
}

// TestRefusalCost: with 200 wallets of which none can pay, a refusal costs at most eight requests to the node and
// eleven writes, and none if the records show it. No payment is left behind. One wallet that can pay is found.
func TestRefusalCost(t *testing.T) {
	last, nobody := token.Address{3, 197}, token.Address{}
	for name, test := range map[string]struct {
		change func(p *process, but token.Address)
		want   error
		asks   int // requests to the node
		writes int
	}{
		"too little by the records": {func(p *process, but token.Address) {
			p.each(but, func(w wallet.Wallet) error {
				return p.Tables.Reconcile(p.T.Context(), w, unit(50), unit(1<<60), nil, nil)
			})
		}, dispatch.ErrInsufficient, 0, 0},
		"windows are full": {func(p *process, but token.Address) {
			p.each(but, func(w wallet.Wallet) (err error) {
				for n := w.NextNonce; n < 4 && err == nil; n++ {
					_, err = p.Tables.Reserve(p.T.Context(), wallet.Need{Wallet: w.ID, Payment: payment.ID(fmt.Sprint("pay_", n)), At: p.Now()})
				}
				return err
			})
		}, dispatch.ErrUnavailable, 8, 11},
		"too little by the node": {func(p *process, but token.Address) {
			if p.holds = unit(50); but == last {
				p.holds = unit(1000)
			}
		}, dispatch.ErrUnavailable, 8, 0},
	} {
		many := func(but token.Address) *process {
			p := newProcess(t, script{})
			for n := range 198 {
				p.keys = append(p.keys, token.Address{3, byte(n)})
			}
			p.set(func(s *settings.Settings) { s.Daily = token.Amount{} })
			p.ask("first").is("opens the wallets", nil)
			p.Pass(time.Second)
			test.change(p, but)
			return p
		}
		p := many(nobody)
		for n := range 2 { // where records show it, the first request reads them
			p.Times = map[string]int{}
			a := p.ask("k").is(name, test.want)
			asks, writes := p.Times["Estimate"]+p.Times["Account"], 0
			for _, op := range []string{"Create", "Reserve", "Reassign", "Discard", "RaiseCeiling", "Commit", "Repause", "PutNoop"} {
				writes += p.Times[op]
			}
			cost := asks > test.asks || writes > test.writes || test.asks == 0 && p.Times["Wallet"] > 0
			if first := n == 0 && test.asks == 0; cost && !first || p.stored().ID != "" || errors.Is(a.err, dispatch.ErrInProgress) {
				t.Errorf("%s %d: %v; %d requests, %d writes, %d reads", name, n, a.err, asks, writes, p.Times["Wallet"])
			}
		}
		if test.asks == 0 { // others' small amounts are paid, and a process that has read no record refuses as well
			p.ask("small", func(r *payment.Request) { r.Merchant, r.Amount = "mer_2", unit(40) }).is("small", nil)
			keys := p.keys
			p = start(t, p.Tables, script{})
			p.keys, p.holds = keys, unit(50)
			if p.ask("k").is("a new process", dispatch.ErrInsufficient); p.Times["Estimate"]+p.Times["Account"] > 8 {
				t.Errorf("a new process: %v", p.Times)
			}
		}
		if a := many(last).ask("paid").is(name+", but one wallet can pay", nil); test.want == dispatch.ErrInsufficient {
			a.by(last)
		}
	}
}
