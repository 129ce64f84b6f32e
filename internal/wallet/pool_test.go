package wallet_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"remit/internal/token"
	"remit/internal/wallet"
)

const window = 64

// stored returns a wallet with so many payments in flight.
func stored(last byte, inFlight uint64) wallet.Wallet {
	return wallet.Wallet{ID: wallet.ID{ChainID: 1, Address: token.Address{19: last}}, NextNonce: 100 + inFlight, Ceiling: 100 + window, Balance: token.Units(1000)}
}

// inOrder draws so that Choose leaves the order as it is.
func inOrder(n int) int { return n - 1 }

func TestChoose(t *testing.T) {
	a, b := stored(1, 10), stored(2, 3)
	paused, poor := stored(1, 0), stored(1, 0)
	paused.Paused, poor.Balance = "by hand", token.Units(9)
	for _, test := range []struct {
		name string
		seen []wallet.Wallet
		want byte
	}{
		{"the one with fewer in flight", []wallet.Wallet{a, b}, 2},
		{"one that is unknown may be idle", []wallet.Wallet{a}, 2},
		{"both unknown: as drawn", nil, 1},
		{"a paused one comes last", []wallet.Wallet{paused, b}, 2},
		{"one with too little comes last", []wallet.Wallet{poor, b}, 2},
		{"what was seen last counts", []wallet.Wallet{a, b, stored(1, 1)}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			pool := wallet.NewPool(window, inOrder)
			for _, w := range test.seen {
				pool.Saw(w)
			}
			got := pool.Choose(1, []token.Address{{19: 1}, {19: 2}}, token.Units(10))
			if got[0].Address[19] != test.want || len(got) != 2 {
				t.Errorf("order %v, want %d first", got, test.want)
			}
		})
	}
}

// TestChooseAll: whatever is drawn and seen, every candidate is there once, so
// that a payment is refused only when all wallets refuse it.
func TestChooseAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pool := wallet.NewPool(window, func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "draw") })
		var candidates []token.Address
		for i := range rapid.ByteRange(0, 9).Draw(t, "wallets") {
			w := stored(i, rapid.Uint64Range(0, window).Draw(t, "in flight"))
			if rapid.Bool().Draw(t, "seen") {
				pool.Saw(w)
			}
			candidates = append(candidates, w.Address)
		}
		var got []token.Address
		for _, id := range pool.Choose(1, candidates, token.Units(1)) {
			if id.ChainID != 1 {
				t.Fatalf("chain %d", id.ChainID)
			}
			got = append(got, id.Address)
		}
		slices.SortFunc(got, func(a, b token.Address) int { return int(a[19]) - int(b[19]) })
		if !slices.Equal(got, candidates) {
			t.Fatalf("chose among %v, want %v", got, candidates)
		}
	})
}
