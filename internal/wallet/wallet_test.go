package wallet_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"remit/internal/chain"
	"remit/internal/token"
	"remit/internal/wallet"
)

// TestRefusal has every reason for no reservation, and the order they are judged in.
func TestRefusal(t *testing.T) {
	ask := wallet.Need{Amount: token.Units(10), Gas: token.Units(10)}
	rich := wallet.Wallet{NextNonce: 5, Ceiling: 6, Balance: token.Units(10), Gas: token.Units(10)}
	for _, test := range []struct {
		name   string
		change func(*wallet.Wallet)
		want   error
	}{
		{"just enough of everything", func(*wallet.Wallet) {}, nil},
		{"paused", func(w *wallet.Wallet) {
			w.Paused = "x"
			w.Ceiling, w.Balance, w.Gas = 0, token.Amount{}, token.Amount{}
		}, wallet.ErrPaused},
		{"at the ceiling", func(w *wallet.Wallet) { w.Ceiling, w.Balance, w.Gas = 5, token.Amount{}, token.Amount{} }, wallet.ErrCeiling},
		{"one unit short", func(w *wallet.Wallet) { w.Balance, w.Gas = token.Units(9), token.Amount{} }, wallet.ErrToken},
		{"one wei short", func(w *wallet.Wallet) { w.Gas = token.Units(9) }, wallet.ErrGas},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := rich
			test.change(&w)
			if got := w.Refusal(ask); !errors.Is(got, test.want) {
				t.Errorf("Refusal() = %v, want %v", got, test.want)
			}
		})
	}
}

func TestInFlight(t *testing.T) {
	for _, test := range []struct{ next, ceiling, want uint64 }{
		{0, 64, 0}, {5, 64, 5}, {70, 64 + 60, 10}, {60, 64 + 60, 0}, {59, 64 + 60, 0},
	} {
		if got := (wallet.Wallet{NextNonce: test.next, Ceiling: test.ceiling}).InFlight(64); got != test.want {
			t.Errorf("next %d, ceiling %d: %d in flight, want %d", test.next, test.ceiling, got, test.want)
		}
	}
}

func TestFirstUse(t *testing.T) {
	id := wallet.ID{ChainID: 1, Address: token.Address{1}}
	view := func(mined, pending uint64) chain.View {
		return chain.View{Node: named{name: "n"}, Account: chain.Account{Mined: mined, Pending: pending, Balance: token.Units(mined), Gas: token.Units(2)}}
	}
	w, err := wallet.FirstUse(id, chain.Views{view(3, 3), view(5, 5)}, 5, 64)
	if err != nil || w.NextNonce != 5 || w.Ceiling != 69 || w.Balance != token.Units(5) || w.Reservations == nil || w.ID != id {
		t.Errorf("FirstUse() = %+v, %v; want what the leading node says", w, err)
	}
	for name, views := range map[string]chain.Views{
		"the pool holds more than is mined":           {view(5, 6)},
		"only the node that lags knows of the others": {view(5, 5), view(3, 6)},
	} {
		if _, err := wallet.FirstUse(id, views, 5, 64); !errors.Is(err, wallet.ErrForeign) {
			t.Errorf("%s: %v, want ErrForeign", name, err)
		}
	}
	if _, err := wallet.FirstUse(id, chain.Views{view(5, 5)}, 4, 64); !errors.Is(err, wallet.ErrForeign) {
		t.Errorf("one of five is not final: %v, want ErrForeign", err)
	}
}

func TestSpendable(t *testing.T) {
	most, err := token.ParseAmount("99999999999999999999999999999999999999") // 38 nines
	if err != nil {
		t.Fatal(err)
	}
	more, err := most.Add(token.Units(1))
	if err != nil {
		t.Fatal(err)
	}
	for in, want := range map[token.Amount]token.Amount{
		{}: {}, token.Units(7): token.Units(7), most: most, more: most, token.MaxAmount(): most,
	} {
		if got := wallet.Spendable(in); got != want {
			t.Errorf("Spendable(%v) = %v, want %v", in, got, want)
		}
	}
}

// TestNoop: each attempt at a no-op keeps the hashes of those before, and stands
// for itself in everything else.
func TestNoop(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	tx := chain.Tx{ChainID: 1, Gas: 100, Fees: chain.Fees{Cap: token.Units(2)}}
	n := wallet.PendingNoop(wallet.ID{ChainID: 1}, tx, chain.Signed{Nonce: 4, Hash: chain.Hash{3}, Raw: []byte{3}}, now)
	if !n.Noop() || !n.Amount.IsZero() || n.Gas != token.Units(200) {
		t.Errorf("a no-op: %+v", n)
	}
	dearer := tx
	dearer.Fees.Cap = token.Units(3)
	once := n.Bumped(dearer, chain.Signed{Hash: chain.Hash{4}, Raw: []byte{4}}, now.Add(time.Minute))
	twice := n.Bumped(dearer, chain.Signed{Hash: chain.Hash{5}}, now)
	if !slices.Equal(once.Hashes, []chain.Hash{{3}, {4}}) || !slices.Equal(twice.Hashes, []chain.Hash{{3}, {5}}) {
		t.Errorf("bumped twice: %v, %v", once.Hashes, twice.Hashes)
	}
	if string(once.Raw) != "\x04" || once.Fees != dearer.Fees || !once.At.Equal(now.Add(time.Minute)) || !once.Since.Equal(now) || once.Gas != token.Units(300) {
		t.Errorf("bumped: %+v", once)
	}
}

// named is a node of which only the name is asked.
type named struct {
	chain.Node
	name string
}

func (n named) String() string { return n.name }
