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

// many returns a process that has opened 200 wallets.
func many(t *testing.T) *process {
	p := newProcess(t, script{})
	for n := range 198 {
		p.keys = append(p.keys, token.Address{3, byte(n)})
	}
	p.set(func(s *settings.Settings) { s.Daily = token.Amount{} })
	if _, err := p.send("first"); err != nil {
		t.Fatal(err)
	}
	return p
}

// records gives every wallet but one a record with so much to spend.
func (p *process) records(units uint64, but token.Address) {
	for _, a := range p.keys {
		if a != but {
			p.Must(p.Tables.Reconcile(p.T.Context(), p.Record(walletOf(a)), token.Units(units), token.Units(1<<60), nil, nil))
		}
	}
}

// full uses every nonce of every wallet but one.
func (p *process) full(but token.Address) {
	for _, a := range p.keys {
		for n := uint64(0); a != but && p.Record(walletOf(a)).NextNonce < 4; n++ {
			_, err := p.Tables.Reserve(p.T.Context(), wallet.Need{Wallet: walletOf(a), Payment: payment.ID(fmt.Sprint("pay_", n)),
				At: p.Now()})
			p.Must(err)
		}
	}
}

// TestRefusalCost: with 200 wallets of which none can pay, a refusal costs at most eight requests to the node and eleven
// writes, and none if the records show it. No payment is left behind. One wallet that can pay is found.
func TestRefusalCost(t *testing.T) {
	last, nobody := token.Address{3, 197}, token.Address{}
	for name, test := range map[string]struct {
		change func(p *process, but token.Address)
		want   error
		asks   int // requests to the node
		writes int
	}{
		"too little by the records": {func(p *process, but token.Address) { p.records(50, but) }, dispatch.ErrInsufficient, 0, 0},
		"windows are full":          {(*process).full, dispatch.ErrUnavailable, 8, 11},
		"too little by the node": {func(p *process, but token.Address) {
			if p.holds = token.Units(50); but == last {
				p.holds = token.Units(1000)
			}
		}, dispatch.ErrUnavailable, 8, 0},
	} {
		p := many(t)
		test.change(p, nobody)
		for n := range 2 {
			p.Times = map[string]int{}
			_, err := p.send("refused")
			asks, writes, stored := p.Times["Estimate"]+p.Times["Account"], 0, p.stored()
			for _, op := range []string{"Create", "Reserve", "Reassign", "Discard", "RaiseCeiling", "Commit", "Repause", "PutNoop"} {
				writes += p.Times[op]
			}
			if n == 0 && test.asks == 0 { // this process has read older records
				writes, asks = max(writes, 3)-3, max(asks, 1)-1
			}
			if !errors.Is(err, test.want) || errors.Is(err, dispatch.ErrInProgress) || asks > test.asks || writes > test.writes ||
				stored.ID != "" || n == 1 && test.asks == 0 && p.Times["Wallet"] > 0 {
				t.Errorf("%s, request %d: %v; %d requests, %d writes, %d reads, payment %q", name, n, err, asks, writes,
					p.Times["Wallet"], stored.State)
			}
		}
		if test.asks == 0 { // others' small amounts are paid
			small := asked
			small.IdempotencyKey, small.Merchant, small.Amount = "small", "mer_2", token.Units(40)
			if _, err := p.d.Send(t.Context(), small); err != nil {
				t.Errorf("%s: a small amount: %v", name, err)
			}
		}
		if name == "too little by the records" { // a process that has read none of them
			keys := p.keys
			p = start(t, p.Tables, script{})
			p.keys, p.holds = keys, token.Units(50)
			if _, err := p.send("refused"); !errors.Is(err, dispatch.ErrInsufficient) || p.Times["Estimate"]+p.Times["Account"] > 8 {
				t.Errorf("a new process: %v, %v", err, p.Times)
			}
		}
		p = many(t)
		p.Pass(time.Second)
		test.change(p, last)
		if result, err := p.send("paid"); err != nil || test.want == dispatch.ErrInsufficient && result.Payment.Wallet != last {
			t.Errorf("%s, but one wallet can pay: %v, %v", name, result.Payment.Wallet, err)
		}
	}
}
