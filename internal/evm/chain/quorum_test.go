package chain_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/proof/tabletest"
)

// TestWhichAnswerCounts is the table at the top of quorum.go: by configured nodes, the answer that
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
			if got := nodes.Alone(len(views)); got != (configured > 2 && len(views) == 1) {
				t.Errorf("%d of %d nodes answer: alone is %t", len(views), configured, got)
			}
		}
	}
}

// TestLags: a node that lags by more than 16 blocks is left out, and one node of three that is ahead leaves nobody out.
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

// TestAhead: the tables may be older than the chain if enough nodes count more, or one shows the transaction at the
// next nonce. A count alone of one of three is doubted. It is not sure while the others are silent, or if its node does
// not answer when it is to show the transaction. A row has the nodes' counts, what the last one shows, and the answer.
func TestAhead(t *testing.T) {
	payer := token.Address{1}
	tabletest.Run(t, nil, func(t *testing.T, c tabletest.Case) {
		counts, shown := strings.Fields(strings.ReplaceAll(c.In[0], " -", "")), c.In[1]
		tx := chain.MinedTx{From: payer, Nonce: 5, Signed: shown != "it unsigned"}
		switch shown {
		case "another wallet's":
			tx.From[0]++
		case "an older one":
			tx.Nonce = 4
		}
		for _, head := range []chain.Head{{Number: 9, Final: 9}, {}} { // Latest gives none
			var stubs []*stub
			for word := range strings.FieldsSeq(c.In[0]) {
				mined, err := strconv.ParseUint(word, 10, 64)
				stubs = append(stubs, &stub{down: err != nil, account: chain.Account{Mined: mined, Head: chain.Head{Number: 9, Final: 9}}})
			}
			if last := stubs[len(counts)-1]; shown != "nothing" {
				last.lost, last.atNonce, last.txs = strings.Count(shown, "too late"), chain.Hash{1}, []chain.MinedTx{tx}
			}
			all := nodes(stubs...)
			views := views(all)[:len(counts)]
			for i := range views {
				views[i].Head = head
			}
			log := new(bytes.Buffer)
			got, sure := all.Ahead(t.Context(), slog.New(slog.NewTextHandler(log, nil)), views, payer, 5)
			if has := fmt.Sprint(got, sure, strings.Count(log.String(), "it does not show")); has != c.Want {
				t.Errorf("Ahead(), and how many are doubted: %s, want %s", has, c.Want)
			}
		}
	})
}

// hesitant takes nine seconds for each answer, or does not give its head.
type hesitant struct {
	*stub
	headless bool
}

func (h hesitant) Head(ctx context.Context, r chain.ConfirmationRule) (chain.Head, error) {
	if h.headless {
		return chain.Head{}, errDown
	}
	return h.account.Head, h.wait(ctx)
}

func (h hesitant) TxAtNonce(ctx context.Context, _ token.Address, _, _ uint64) (chain.Hash, error) {
	return h.atNonce, h.wait(ctx)
}

// TestSlowToShow: a node that shows the transaction too late does not answer, nor does one without a head.
func TestSlowToShow(t *testing.T) {
	for headless, want := range map[bool]time.Duration{false: 10 * time.Second, true: 0} {
		synctest.Test(t, func(t *testing.T) {
			last := hesitant{&stub{takes: func(int) time.Duration { return 9 * time.Second }}, headless}
			views, began := chain.Views{{}, {Node: last, Account: chain.Account{Mined: 7}}}, time.Now()
			count, sure := make(chain.Nodes, 3).Ahead(t.Context(), slog.New(slog.DiscardHandler), views, token.Address{1}, 5)
			if took := time.Since(began); count != 7 || sure || took != want {
				t.Errorf("headless %t: Ahead() = %d, %t after %s", headless, count, sure, took)
			}
		})
	}
}

// TestView: neither the first nor the richest node of three is believed.
func TestView(t *testing.T) {
	var stubs []*stub
	for _, balance := range []uint64{1, 9, 7} {
		stubs = append(stubs, &stub{account: chain.Account{Balance: token.Units(balance)}})
	}
	if got, err := nodes(stubs...).View(t.Context(), nobody, nobody, latest); err != nil ||
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
