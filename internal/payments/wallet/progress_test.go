package wallet_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// in is a block of a chain.
func in(number uint64) chain.Block {
	return chain.Block{Number: number, Hash: chain.Hash{byte(number)}}
}

// blocks returns a Mined that ends in block 5: nonce 7 is in block 4, and 8 and 9 are in 5.
func blocks() wallet.Mined {
	return wallet.Mined{First: 7, Runs: []wallet.Run{{Block: 4, Count: 1}, {Block: 5, Count: 2}}, Hash: [8]byte{5}}
}

// TestMinedAdd: only the next nonce is added, in a block that follows, and the old value stays as it was.
func TestMinedAdd(t *testing.T) {
	full := wallet.Mined{}
	for n := range uint64(wallet.MaxBlocks) {
		full, _ = full.Add(n, in(n))
	}
	for _, test := range []struct {
		name  string
		m     wallet.Mined
		nonce uint64
		block chain.Block
		want  []wallet.Run // nil: it is not added
	}{
		{"the first", wallet.Mined{}, 7, in(4), []wallet.Run{{Block: 4, Count: 1}}},
		{"in the last block", blocks(), 10, in(5), []wallet.Run{{Block: 4, Count: 1}, {Block: 5, Count: 3}}},
		{"in a new block", blocks(), 10, in(6), append(blocks().Runs, wallet.Run{Block: 6, Count: 1})},
		{"another nonce", blocks(), 11, in(6), nil},
		{"in a block before", blocks(), 10, in(4), nil},
		{"in another block of the same number", blocks(), 10, chain.Block{Number: 5}, nil},
		{"in a block too many", full, wallet.MaxBlocks, in(wallet.MaxBlocks), nil},
	} {
		before := append([]wallet.Run(nil), test.m.Runs...)
		want := test.m
		if test.want != nil {
			want = wallet.Mined{First: 7, Runs: test.want, Hash: [8]byte{byte(test.block.Number)}}
		}
		got, added := test.m.Add(test.nonce, test.block)
		if diff := cmp.Diff(want, got) + cmp.Diff(before, test.m.Runs); added != (test.want != nil) || diff != "" {
			t.Errorf("%s: added %t (-want +got):\n%s", test.name, added, diff)
		}
	}
	if (wallet.Mined{}).EndsIn(chain.Block{}) {
		t.Error("an empty one ends in a block")
	}
}

// TestMinedFrom: nonces that are final are left out, and the old value stays as it was.
func TestMinedFrom(t *testing.T) {
	m := blocks()
	for nonce, want := range map[uint64]wallet.Mined{
		0: m, 7: m, 10: {}, 99: {},
		8: {First: 8, Runs: []wallet.Run{{Block: 5, Count: 2}}, Hash: m.Hash},
		9: {First: 9, Runs: []wallet.Run{{Block: 5, Count: 1}}, Hash: m.Hash},
	} {
		if diff := cmp.Diff(want, m.From(nonce)) + cmp.Diff(blocks(), m); diff != "" {
			t.Errorf("from %d (-want +got):\n%s", nonce, diff)
		}
	}
}

// TestProgressOf: what a wallet's record shows of a payment that it does not show as mined.
func TestProgressOf(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*wallet.Wallet, *payment.Payment)
		want   payment.Stage
	}{
		"a node has it": {func(*wallet.Wallet, *payment.Payment) {}, payment.StageSent},
		"no node":       {func(_ *wallet.Wallet, p *payment.Payment) { p.Nonce = 11 }, payment.StageCommitted},
		"prepared":      {func(_ *wallet.Wallet, p *payment.Payment) { p.State = payment.Prepared }, payment.StageCommitted},
		"another's":     {func(_ *wallet.Wallet, p *payment.Payment) { p.Wallet[0]++ }, payment.StageCommitted},
		"no gas":        {func(w *wallet.Wallet, _ *payment.Payment) { w.Paused = wallet.OutOfGas }, payment.WaitingForFunds},
		"dear gas": {func(w *wallet.Wallet, _ *payment.Payment) { w.Progress.Waits = payment.WaitingForFees },
			payment.WaitingForFees},
	} {
		w := wallet.Wallet{Progress: wallet.Progress{Mined: blocks(), Sent: 11}}
		p := payment.Payment{State: payment.Committed, Nonce: 10}
		test.change(&w, &p)
		if got := w.ProgressOf(p); got.Stage != test.want || got.Block != nil {
			t.Errorf("%s: %+v, want %s", name, got, test.want)
		}
	}
}
