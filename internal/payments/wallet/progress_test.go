package wallet_test

import (
	"testing"

	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

func TestProgressOf(t *testing.T) {
	type change func(*wallet.Wallet, *payment.Payment)
	noop := []payment.Attempt{{}, {Noop: true}}
	for name, test := range map[string]struct {
		change change
		want   payment.Progress
	}{
		"a node has it": {func(*wallet.Wallet, *payment.Payment) {}, payment.ProgressSent},
		"no node":       {func(_ *wallet.Wallet, p *payment.Payment) { p.Nonce = 11 }, payment.ProgressCommitted},
		"prepared":      {func(_ *wallet.Wallet, p *payment.Payment) { p.State = payment.Prepared }, payment.ProgressCommitted},
		"another's":     {func(_ *wallet.Wallet, p *payment.Payment) { p.Wallet[0]++ }, payment.ProgressCommitted},
		"no gas":        {func(w *wallet.Wallet, _ *payment.Payment) { w.Paused = wallet.OutOfGas }, payment.WaitingForFunds},
		"dear gas": {func(w *wallet.Wallet, _ *payment.Payment) { w.Progress.Waits = payment.WaitingForFees },
			payment.WaitingForFees},
		"mined":              {func(_ *wallet.Wallet, p *payment.Payment) { p.Nonce = 9 }, payment.ProgressMined},
		"its nonce is mined": {func(_ *wallet.Wallet, p *payment.Payment) { p.Nonce, p.Attempts = 9, noop }, payment.ProgressSent},
		"it is, not a no-op": {func(_ *wallet.Wallet, p *payment.Payment) { p.Nonce, p.Attempts = 8, noop }, payment.ProgressMined},
	} {
		w := wallet.Wallet{Progress: wallet.Progress{Mined: 10, Paid: []uint64{8, 10}, Sent: 11}}
		p := payment.Payment{State: payment.Committed, Nonce: 10}
		test.change(&w, &p)
		if got := w.ProgressOf(p); *got != test.want {
			t.Errorf("%s: %s, want %s", name, *got, test.want)
		}
	}
}
