package wallet_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/tabletest"
)

// TestRefusal has reasons to refuse a reservation, in the order of the checks.
func TestRefusal(t *testing.T) {
	ten, nine := token.Units(10), token.Units(9)
	for _, test := range []struct {
		what   string
		change func(*wallet.Wallet, *wallet.Need)
		want   error
	}{
		{"just enough of everything", func(*wallet.Wallet, *wallet.Need) {}, nil},
		{"one wei short", func(w *wallet.Wallet, _ *wallet.Need) { w.Gas = nine }, wallet.ErrGas},
		{"a unit short", func(w *wallet.Wallet, _ *wallet.Need) { w.Balance = nine }, wallet.ErrToken},
		{"at the ceiling", func(w *wallet.Wallet, _ *wallet.Need) { w.Ceiling = 5 }, wallet.ErrCeiling},
		{"at the merchant's cap", func(_ *wallet.Wallet, n *wallet.Need) { n.MerchantCap = 1 }, wallet.ErrMerchantCap},
		{"held for another revision", func(w *wallet.Wallet, _ *wallet.Need) {
			w.Reservations = map[payment.ID]wallet.Reservation{"pay_a": {For: "another"}}
		}, wallet.ErrHeld},
		{"paused", func(w *wallet.Wallet, _ *wallet.Need) { w.Paused = "x" }, wallet.ErrPaused},
		{"a merchant's, for all", func(w *wallet.Wallet, _ *wallet.Need) { w.Merchant = "mer_a" }, wallet.ErrOwner},
	} {
		w := wallet.Wallet{NextNonce: 5, Ceiling: 6, Balance: ten, Gas: ten, PerMerchant: map[string]uint64{"mer_a": 1}}
		n := wallet.Need{Payment: "pay_a", For: "revision", Amount: ten, Gas: ten, Merchant: "mer_a", MerchantCap: 2}
		if test.change(&w, &n); !errors.Is(w.Refusal(n), test.want) {
			t.Errorf("%s: %v, want %v", test.what, w.Refusal(n), test.want)
		}
		n.Owner = wallet.Anyone // of a wallet of anyone
		if got := w.Refusal(n); test.want == wallet.ErrOwner && got != nil {
			t.Errorf("%s, of anyone: %v", test.what, got)
		}
	}
}

func TestFirstUse(t *testing.T) {
	id := wallet.ID{ChainID: 1, Address: token.Address{1}}
	on := func(mined, pending uint64) chain.Account {
		return chain.Account{Mined: mined, Pending: pending, Balance: token.Units(mined), Gas: token.Units(2)}
	}
	w, err := wallet.FirstUse(id, on(5, 5), 5, 64, 7)
	if err != nil || w.Balance != token.Units(5) || !w.Gas.IsZero() {
		t.Errorf("gas is paid in the token: %+v, %v", w, err)
	}
	w, err = wallet.FirstUse(id, on(5, 5), 5, 64, 0)
	if err != nil || w.NextNonce != 5 || w.Ceiling != 69 || w.Balance != token.Units(5) || w.Reservations == nil || w.ID != id {
		t.Errorf("FirstUse() = %+v, %v; want the chain's count and balances", w, err)
	}
	if _, err := wallet.FirstUse(id, on(5, 6), 5, 64, 0); !errors.Is(err, wallet.ErrForeign) {
		t.Errorf("pools hold more than is mined: %v, want ErrForeign", err)
	}
	if _, err := wallet.FirstUse(id, on(5, 5), 4, 64, 0); !errors.Is(err, wallet.ErrForeign) {
		t.Errorf("one of five is not final: %v, want ErrForeign", err)
	}
}

// TestPassing: no pause, or one that ends by itself, is passing.
func TestPassing(t *testing.T) {
	for reason, want := range map[string]bool{"": true, wallet.OutOfGas: true, wallet.RolledBack + ": x": true, wallet.Suspicion: false} {
		if w := (wallet.Wallet{Paused: reason}); w.Passing() != want {
			t.Errorf("%q passes: %t", reason, !want)
		}
	}
}

func TestSpendable(t *testing.T) {
	most := must.Get(token.ParseAmount("99999999999999999999999999999999999999"))(t) // 38 nines
	more := must.Get(most.Add(token.Units(1)))(t)
	for in, want := range map[token.Amount]token.Amount{
		{}: {}, token.Units(7): token.Units(7), most: most, more: most, token.MaxAmount(): most,
	} {
		if got := wallet.Spendable(in); got != want {
			t.Errorf("Spendable(%v) = %v, want %v", in, got, want)
		}
	}
}

// TestNoop: each attempt at a no-op keeps the earlier hashes and the time of the first, and replaces the rest.
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
	if string(once.Raw) != "\x04" || once.Fees != dearer.Fees || !once.At.Equal(now.Add(time.Minute)) ||
		!once.Since.Equal(now) || once.Gas != token.Units(300) {
		t.Errorf("bumped: %+v", once)
	}
}

const window = 64

// noon is the present of the pools.
var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// stored returns a wallet with so many payments in flight.
func stored(last byte, inFlight uint64) wallet.Wallet {
	return wallet.Wallet{ID: wallet.ID{ChainID: 1, Address: token.Address{19: last}}, NextNonce: 100 + inFlight,
		Ceiling: 100 + window, Balance: token.Units(1000)}
}

// inOrder draws so that Choose leaves the order as it is.
func inOrder(n int) int { return n - 1 }

func TestChoose(t *testing.T) {
	a, b := stored(1, 10), stored(2, 3)
	paused, poor := stored(1, 0), stored(1, 0)
	paused.Paused, poor.Balance = "by hand", token.Units(9)
	for name, test := range map[string]struct {
		seen []wallet.Wallet
		want byte
	}{
		"the one with fewer in flight":   {[]wallet.Wallet{a, b}, 2},
		"an unknown wallet may be idle":  {[]wallet.Wallet{a}, 2},
		"both unknown: as drawn":         {nil, 1},
		"a paused one comes last":        {[]wallet.Wallet{paused, b}, 2},
		"one with too little comes last": {[]wallet.Wallet{poor, b}, 2},
		"what was seen last counts":      {[]wallet.Wallet{a, b, stored(1, 1)}, 1},
	} {
		pool := wallet.NewPool(inOrder)
		for _, w := range test.seen {
			pool.Observe(w)
		}
		got := pool.Choose(1, []token.Address{{19: 1}, {19: 2}}, token.Units(10), noon)
		if got[0].Address[19] != test.want || len(got) != 2 {
			t.Errorf("%s: order %v, want %d first", name, got, test.want)
		}
	}
	other := wallet.NewPool(func(int) int { return 0 })
	if got := other.Choose(1, []token.Address{{19: 1}, {19: 2}}, token.Units(10), noon); got[0].Address[19] != 2 {
		t.Errorf("order %v, drawn the other way round", got)
	}
}

// TestCooldown: a wallet in cooldown is tried last for a minute, also when the others are full, and consecutive
// cooldowns for one reason count from the first. A row has a time after noon, the cooldown of the first wallet that
// begins then or ends, when the first of such began, and the wallet that is tried last.
func TestCooldown(t *testing.T) {
	pool, a := wallet.NewPool(inOrder), stored(1, 0)
	candidates := []token.Address{{19: 1}, {19: 2}, {19: 3}}
	pool.Observe(stored(2, window))
	pool.Observe(stored(3, window))
	for _, c := range tabletest.Read(t, nil) {
		after := func(column int) time.Time { return noon.Add(must.Get(time.ParseDuration(c.In[column]))(t)) }
		switch at, why := after(0), c.In[1]; why {
		case "-":
		case "ends":
			pool.EndCooldown(a.ID)
		default:
			if since := pool.CoolDown(a.ID, why, at); !since.Equal(after(2)) {
				t.Errorf("%s: since %v", c.Name, since)
			}
		}
		if last := pool.Choose(1, candidates, token.Units(1), after(0))[2].Address[19]; fmt.Sprint(last) != c.Want {
			t.Errorf("%s: wallet %d is the last", c.Name, last)
		}
	}
}

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

// TestRegistry: a funding wallet is found wherever it stands, and an assignment has its states.
func TestRegistry(t *testing.T) {
	funding, active := wallet.Registration{State: wallet.Funding}, wallet.Registration{State: wallet.Active}
	for _, all := range []wallet.Registry{{funding, active}, {active, funding}} {
		if found, ok := all.Funding(); !ok || found.State != wallet.Funding {
			t.Errorf("of %v: %v, %t", all, found, ok)
		}
	}
	for s, want := range map[wallet.State][2]bool{wallet.Active: {true, false}, wallet.Funding: {true, false}, wallet.Assigned: {false, true},
		wallet.Draining: {true, true}, wallet.Retired: {true, true}} {
		if got := [2]bool{s.Fits(""), s.Fits("mer_1")}; got != want {
			t.Errorf("%s fits nobody and a merchant: %v, want %v", s, got, want)
		}
	}
}
