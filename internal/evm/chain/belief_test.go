package chain_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
)

// TestWhichAnswerCounts is the table at the top of belief.go: by configured nodes, the answer that
// counts if all answer, all but one, and so on.
func TestWhichAnswerCounts(t *testing.T) {
	for configured, want := range map[int][]int{1: {1}, 2: {1, 1}, 3: {2, 1, 1}, 4: {2, 1, 1, 1}, 5: {3, 2, 1, 1, 1}} {
		for silent, nth := range want {
			nodes := make(chain.Nodes, configured)
			var amounts []token.Amount
			var views chain.Views
			for i := configured - silent; i > 0; i-- {
				amounts = append(amounts, token.Units(uint64(i)))
				views = append(views, chain.View{Account: chain.Account{Mined: uint64(i)}})
			}
			if got := chain.AtLeast(nodes, amounts, func(a token.Amount) token.Amount { return a }); got != token.Units(uint64(nth)) {
				t.Errorf("%d nodes, %d silent: the lowest but %s counts, want %d", configured, silent, got, nth)
			}
			mined := uint64(nth)
			if configured == 2 {
				mined = uint64(configured - silent)
			}
			if got := nodes.Mined(views); got != mined {
				t.Errorf("%d nodes, %d silent: Mined() = %d, want %d", configured, silent, got, mined)
			}
		}
	}
}

// TestLags: a node that lags by more than 16 blocks is left out, and one node of three that is
// ahead leaves nobody out.
func TestLags(t *testing.T) {
	for numbers, want := range map[[3]uint64][2]bool{{9, 25, 25}: {}, {9, 26, 26}: {true, true}, {9, 9, 26}: {false, true}} {
		var views chain.Views
		for _, n := range numbers {
			views = append(views, chain.View{Account: chain.Account{Head: chain.Head{Number: n}}})
		}
		if got := [2]bool{make(chain.Nodes, 3).Lags(views[0], views), make(chain.Nodes, 2).Lags(views[0], views[1:])}; got != want {
			t.Errorf("of the blocks %v, the first lags, of three and of two: %v, want %v", numbers, got, want)
		}
	}
}

// TestSeen: too few nodes show nothing, and one of three that is ahead or behind does not say by when.
func TestSeen(t *testing.T) {
	for _, test := range []struct {
		configured int
		numbers    []uint64
		want       uint64 // 0: false
	}{{1, []uint64{9}, 9}, {2, []uint64{9}, 0}, {2, []uint64{7, 9}, 7}, {3, []uint64{9}, 0}, {3, []uint64{90, 9}, 9},
		{3, []uint64{90, 8, 9}, 9}} {
		var by chain.Views
		for _, n := range test.numbers {
			by = append(by, chain.View{Account: chain.Account{Head: chain.Head{Number: n}}})
		}
		if got, ok := make(chain.Nodes, test.configured).Seen(by); got != test.want || ok != (got > 0) {
			t.Errorf("of %d nodes, seen at %v: %d, %t, want %d", test.configured, test.numbers, got, ok, test.want)
		}
	}
}

// TestAhead: the tables may be older than the chain if enough nodes count more, or one shows the
// transaction at the next nonce. A count alone of one of three is doubted.
func TestAhead(t *testing.T) {
	payer := token.Address{1}
	tx := chain.MinedTx{From: payer, Nonce: 5, Signed: true}
	for name, test := range map[string]struct {
		counts  []uint64
		shown   func(*chain.MinedTx) // by the last node; nil: nothing
		want    uint64
		doubted int
	}{
		"nobody counts more":     {[]uint64{5, 5, 4}, nil, 0, 0},
		"one of one":             {[]uint64{7}, nil, 7, 0},
		"one of two":             {[]uint64{5, 7}, nil, 7, 0},
		"one of three":           {[]uint64{5, 5, 7}, nil, 0, 1},
		"one of three shows it":  {[]uint64{5, 5, 7}, func(*chain.MinedTx) {}, 7, 0},
		"it is not signed":       {[]uint64{5, 5, 7}, func(tx *chain.MinedTx) { tx.Signed = false }, 0, 1},
		"it is another wallet's": {[]uint64{5, 5, 7}, func(tx *chain.MinedTx) { tx.From = token.Address{2} }, 0, 1},
		"it is an older one":     {[]uint64{5, 5, 7}, func(tx *chain.MinedTx) { tx.Nonce = 4 }, 0, 1},
		"two of three":           {[]uint64{5, 7, 8}, nil, 7, 0},
		"two of four":            {[]uint64{5, 5, 7, 7}, nil, 0, 2},
		"one of five shows it":   {[]uint64{5, 5, 5, 6, 7}, func(*chain.MinedTx) {}, 7, 1},
	} {
		var stubs []*stub
		for _, count := range test.counts {
			stubs = append(stubs, &stub{account: chain.Account{Mined: count, Head: chain.Head{Number: 9, Final: 9}}})
		}
		if last := stubs[len(stubs)-1]; test.shown != nil {
			shown := tx
			test.shown(&shown)
			last.atNonce, last.txs = chain.Hash{1}, []chain.MinedTx{shown}
		}
		all := nodes(stubs...)
		log := new(bytes.Buffer)
		got, sure := all.Ahead(t.Context(), slog.New(slog.NewTextHandler(log, nil)), views(all), payer, 5)
		if doubted := strings.Count(log.String(), "it does not show"); got != test.want || sure != (test.want > 0) || doubted != test.doubted {
			t.Errorf("%s: Ahead() = %d, %t, %d doubted; want %d, %d", name, got, sure, doubted, test.want, test.doubted)
		}
	}
}

// TestAheadAlone: while two nodes of three are silent, a bare count of the third is not sure, unless it shows the transaction.
func TestAheadAlone(t *testing.T) {
	for _, shown := range []bool{false, true} {
		s := &stub{account: chain.Account{Mined: 7, Head: chain.Head{Number: 9, Final: 9}}}
		if shown {
			s.atNonce, s.txs = chain.Hash{1}, []chain.MinedTx{{From: token.Address{1}, Nonce: 5, Signed: true}}
		}
		all := nodes(s, &stub{down: true}, &stub{down: true})
		for _, head := range []chain.Head{s.account.Head, {}} { // Latest gives none
			views := views(all)[:1]
			views[0].Head = head
			if got, sure := all.Ahead(t.Context(), slog.New(slog.DiscardHandler), views, token.Address{1}, 5); got != 7 || sure != shown {
				t.Errorf("shown: %t, head %v: %d, %t", shown, head, got, sure)
			}
		}
	}
}

// TestAheadUnasked: a node that counts more, and does not answer when it is to show it, is not sure; nor is it wrong while
// another node is silent, as the rest may lie.
func TestAheadUnasked(t *testing.T) {
	of := func(mined uint64) *stub {
		return &stub{account: chain.Account{Mined: mined, Head: chain.Head{Number: 9, Final: 9}}}
	}
	for answers, want := range map[int]uint64{2: 7, 3: 0} {
		honest := of(7)
		honest.atNonce, honest.lost = chain.Hash{1}, 1
		all := nodes(honest, of(5), of(5))
		got, sure := all.Ahead(t.Context(), slog.New(slog.DiscardHandler), views(all)[:answers], token.Address{1}, 5)
		if got != want || sure {
			t.Errorf("%d answers: %d, %t, want %d", answers, got, sure, want)
		}
	}
}

// TestView: neither the first nor the richest node of three is believed.
func TestView(t *testing.T) {
	var stubs []*stub
	for _, balance := range []uint64{1, 9, 7} {
		stubs = append(stubs, &stub{account: chain.Account{Balance: token.Units(balance)}})
	}
	if got, err := nodes(stubs...).View(t.Context(), token.Address{}, token.Address{}, chain.ConfirmationRule{}); err != nil ||
		got.Balance != token.Units(7) {
		t.Errorf("%v, %v", got.Balance, err)
	}
}

// TestDoubt: the log names the node at most once a minute, and its health shows it each time.
func TestDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, log := slowly(priced(1)), new(bytes.Buffer)
		doubt := func() {
			chain.View{Node: nodes[0]}.Doubt(t.Context(), slog.New(slog.NewTextHandler(log, nil)), "why", "count", 3)
		}
		for minute := range 2 {
			doubt()
			doubt()
			health := nodes.Health()[0]
			if lines := strings.Count(log.String(), `msg="node is not believed: why" node=a count=3`); lines != minute+1 || !health.Silent {
				t.Errorf("minute %d: %d lines, %+v:\n%s", minute, lines, health, log)
			}
			if nodes.Health()[0].Silent {
				t.Error("it is silent for ever")
			}
			time.Sleep(time.Minute)
		}
	})
}
