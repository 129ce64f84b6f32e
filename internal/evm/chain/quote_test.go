package chain_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
)

// priced is a node that answers in time and says n for each price.
func priced(n uint64) *stub { return &stub{gas: n, takes: always(usual)} }

func TestFees(t *testing.T) {
	never := &stub{gas: 9, takes: always(time.Hour)}
	for _, test := range []struct {
		why       string
		nodes     []*stub
		base, tip uint64
		took      time.Duration
	}{
		{"one node is believed", []*stub{priced(5)}, 5, 5, usual},
		{"of two the larger base fee and the smaller tip", []*stub{priced(5), priced(7)}, 7, 5, usual},
		{"of three the middle", []*stub{priced(7_000), priced(5), priced(6)}, 6, 6, usual},
		{"of four the middle two", []*stub{priced(7_000), priced(5), priced(6), priced(0)}, 6, 5, usual},
		{"a node that is late is not waited for", []*stub{never, priced(5), priced(6)}, 6, 5, usual + 500*time.Millisecond},
		{"a slow node is", []*stub{priced(5), {gas: 6, takes: always(499 * time.Millisecond)}}, 6, 5, 499 * time.Millisecond},
		{"while none has answered all are", []*stub{{down: true, takes: always(usual)},
			{gas: 6, takes: always(9 * time.Second)}}, 6, 6, 9 * time.Second},
	} {
		t.Run(test.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes := slowly(test.nodes...)
				var got chain.Market
				var err error
				took := took(func() { got, err = nodes.Fees(t.Context()) })
				want := chain.Market{BaseFee: token.Units(test.base), Tip: token.Units(test.tip), L1Fee: token.Units(test.base)}
				if err != nil || got != want || took != test.took {
					t.Errorf("%v, %v after %v; want %v after %v", got, err, took, want, test.took)
				}
				for i, h := range nodes.Health() {
					if late := test.nodes[i] == never || test.nodes[i].down; (h.Missed == 1) != late {
						t.Errorf("node %s missed %d", h.Node, h.Missed)
					}
				}
			})
		})
	}
}

// TestOneFastNodeOfThree sets no tip: a second answer is waited for, and a node that answers alone, or beside one that
// differs, gets at most twice the last agreed tip, or the base fee.
func TestOneFastNodeOfThree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		greedy, b, c := priced(200_000), priced(100), priced(100)
		late := always(600 * time.Millisecond)
		b.takes, c.takes = late, late
		quote := func(why string, base, tip uint64) {
			t.Helper()
			got, err := slowly(greedy, b, c).Fees(t.Context())
			if want := (chain.Market{BaseFee: token.Units(base), Tip: token.Units(tip), L1Fee: token.Units(base)}); (err == nil) != (base > 0) ||
				err == nil && got != want {
				t.Errorf("%s: %v, %v, want %v", why, got, err, want)
			}
		}
		quote("the others are slow", 100, 100)
		greedy.gas, greedy.greed, c.takes = 100, 8, always(2*time.Second)
		quote("of two of three the higher, up to the base fee", 100, 100)
		greedy.greed = 9
		quote("which is not the lower", 100, 100)
		b.down, c.down, greedy.greed = true, true, 8
		quote("the others are down, and nothing is known", 100, 100)
		greedy.gas = 0
		quote("nor a base fee", 0, 0)
		nodes := slowly(greedy, b, c)
		greedy.gas, greedy.greed, b.down, c.down = 100, 0, false, false
		if _, err := nodes.Fees(t.Context()); err != nil {
			t.Error(err)
		}
		b.down, c.down = true, true
		for _, asks := range []struct{ tip, want uint64 }{{200_000, 200}, {150, 150}} {
			time.Sleep(time.Hour)
			greedy.gas = asks.tip
			if got, err := nodes.Fees(t.Context()); err != nil || got.Tip != token.Units(asks.want) {
				t.Errorf("the others are down for an hour: %v, %v, want %d", got.Tip, err, asks.want)
			}
		}
	})
}

// TestPricesAreHeldAgainstTheLast: a price that is far from the one on which most
// nodes last agreed counts when most say so, or when that is four minutes old.
func TestPricesAreHeldAgainstTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := priced(100), priced(100)
		nodes := slowly(a, b)
		quote := func(why string, ofA, ofB, want uint64) {
			t.Helper()
			a.gas, b.gas, b.down = ofA, ofB, ofB == 0
			if got, err := nodes.Fees(t.Context()); err != nil || got.BaseFee != token.Units(want) {
				t.Errorf("%s: %v, %v; want %d", why, got.BaseFee, err, want)
			}
		}
		quote("both agree", 100, 100, 100)
		agreed := time.Now()
		quote("one is far", 1001, 100, 100)
		quote("one is far below", 9, 100, 100)
		quote("one is alone and near", 1000, 0, 1000)
		quote("one is alone and near below", 10, 0, 10)
		quote("one is alone and far", 1001, 0, 100)
		time.Sleep(4*time.Minute - time.Since(agreed) - 2*usual)
		quote("it still is", 9, 0, 100)
		quote("one is alone, four minutes after", 1001, 0, 1001)
		quote("which nobody remembers", 9, 0, 9)
		time.Sleep(10 * time.Second) // until the circuit breaker lets a request through
		quote("both agree that far", 20_000, 10_000, 20_000)
		quote("that is remembered", 201, 0, 20_000)
		quote("two that differ more are not agreed", 20_000, 9_999, 20_000)
		quote("both agree, as far below", 4, 2, 4)
	})
}

// TestWorstCase: one node's word makes no transfer too cheap where others answer, and none much dearer than the last.
func TestWorstCase(t *testing.T) {
	for _, test := range []struct {
		why   string
		last  uint64
		nodes []*stub
		want  uint64 // 0: an error
	}{
		{"one node is believed", 0, []*stub{priced(60)}, 60},
		{"also if all is dearer by now", 60, []*stub{priced(150)}, 150},
		{"a price that is too low has no say", 60, []*stub{priced(1), priced(60)}, 60},
		{"of three the middle", 60, []*stub{priced(1), priced(9_000), priced(61)}, 61},
		{"twice the last", 60, []*stub{priced(60), priced(121)}, 121},
		{"more takes a second node", 60, []*stub{priced(60), priced(122)}, 60},
		{"more, of two nodes", 60, []*stub{priced(150), priced(146)}, 146},
		{"more, of two of three", 60, []*stub{priced(60), priced(150), priced(146)}, 146},
		{"more, and the second does not answer", 60, []*stub{priced(150), {down: true, takes: always(usual)}}, 0},
		{"no more, and the second does not answer", 60, []*stub{priced(62), {down: true, takes: always(usual)}}, 62},
		{"the first, of two that differ much", 0, []*stub{priced(60), priced(9_000)}, 60},
		{"the first, and the second does not answer", 0, []*stub{priced(60), {down: true, takes: always(usual)}}, 60},
		{"nobody answers", 60, []*stub{{down: true, takes: always(usual)}}, 0},
		{"the token pays no stranger", 60, []*stub{{reverts: true, takes: always(usual)}}, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			got, err := slowly(test.nodes...).WorstCase(t.Context(), chain.Call{Data: []byte{1, 2}}, test.last)
			if got != test.want || (err == nil) != (test.want > 0) {
				t.Errorf("%s: %d, %v, want %d", test.why, got, err, test.want)
			}
		})
	}
	if got, err := (chain.Nodes{&stub{gas: 60}}).WorstCase(t.Context(), chain.Call{Data: []byte{1, 0, 2, 0}}, 0); got != 60+2*12 ||
		err != nil {
		t.Errorf("two bytes that may cost 12 more each: %d, %v", got, err)
	}
}
