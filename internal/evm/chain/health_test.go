package chain_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/proof/must"
)

const usual = 20 * time.Millisecond

func always(d time.Duration) func(int) time.Duration { return func(int) time.Duration { return d } }

func slowly(all ...*stub) chain.Nodes { return nodes(all...).Watch(time.Now, time.After) }

// asked is how many requests each node got.
func asked(all ...*stub) string {
	synctest.Wait() // for requests that nobody waits for
	var counts []string
	for _, s := range all {
		counts = append(counts, fmt.Sprint(s.asked))
	}
	return strings.Join(counts, " ")
}

func health(t *testing.T, nodes chain.Nodes, want ...chain.Health) {
	t.Helper()
	if diff := cmp.Diff(want, nodes.Health()); diff != "" {
		t.Errorf("health (-want +got):\n%s", diff)
	}
}

func took(do func()) time.Duration {
	began := time.Now()
	do()
	return time.Since(began)
}

// TestOneNodeHangs: payments go on beside a node that hangs, whether always or at
// every third request (audit M9: 1.1 payments a second, half of them over 4 s).
func TestOneNodeHangs(t *testing.T) {
	for name, takes := range map[string]func(int) time.Duration{
		"every third request": func(n int) time.Duration {
			if n%3 == 0 {
				return 12 * time.Second
			}
			return usual
		},
		"always": always(12 * time.Second),
	} {
		for hangs := range 2 {
			t.Run(fmt.Sprintf("%s, node %d", name, hangs), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					all := []*stub{{takes: always(usual)}, {takes: always(usual)}}
					all[hangs].takes = takes
					nodes := slowly(all...)
					var times []time.Duration
					for range 100 {
						times = append(times, took(func() {
							must.Get(nodes.Estimate(t.Context(), chain.Call{}))(t)
							if reply := nodes.Deliver(t.Context(), []byte("x"), nil); reply.Class != chain.Accepted {
								t.Error(reply)
							}
						}))
					}
					slices.Sort(times)
					if p50, most := times[50], times[99]; p50 > 2*usual || most > 1100*time.Millisecond {
						t.Errorf("a payment took %v, the slowest %v", p50, most)
					}
				})
			})
		}
	}
}

func TestHedge(t *testing.T) {
	type slows = []*stub
	in := func(milliseconds int, s stub) *stub {
		s.takes = always(time.Duration(milliseconds) * time.Millisecond)
		return &s
	}
	gas := func(gas uint64, milliseconds int) *stub { return in(milliseconds, stub{gas: gas}) }
	reverts := func(milliseconds int) *stub { return in(milliseconds, stub{reverts: true}) }
	hangs := func() *stub { return gas(0, 3_600_000) }
	listed := func() *stub { return in(20, stub{listed: true}) }
	down := func() *stub { return in(20, stub{down: true}) }
	reverted, onList, nobody := chain.ErrReverted, chain.ErrListed, chain.ErrUnavailable
	for _, test := range []struct {
		why   string
		nodes slows
		gas   uint64
		err   error
		took  int64 // milliseconds
		asked string
	}{
		{"a node that answers in time is asked alone", slows{gas(1, 499), gas(2, 20)}, 1, nil, 499, "1 0"},
		{"another is asked when one hangs", slows{hangs(), gas(2, 20)}, 2, nil, 520, "1 1"},
		{"and a third", slows{hangs(), hangs(), gas(3, 20)}, 3, nil, 1520, "1 1 1"},
		{"of three, two that are alike count, the higher one", slows{gas(60, 20), gas(119, 50), gas(0, 20)}, 119, nil, 50, "1 1 0"},
		{"of a low one and another, the middle", slows{gas(30, 20), gas(71, 20), gas(70, 20)}, 70, nil, 40, "1 1 1"},
		{"of an absurd one, the middle", slows{gas(90_000, 20), gas(71, 20), gas(70, 20)}, 71, nil, 40, "1 1 1"},
		{"the higher of two, if the third hangs", slows{gas(30, 20), gas(71, 20), hangs()}, 71, nil, 1020, "1 1 1"},
		{"two of three revert", slows{reverts(20), reverts(20), gas(2, 9000)}, 0, reverted, 1020, "1 1 1"},
		{"one of three that reverts waits on", slows{reverts(20), gas(2, 4000), gas(2, 4000)}, 2, nil, 4020, "1 1 1"},
		{"and so do two beside one that passes", slows{gas(2, 20), reverts(20), reverts(20)}, 0, reverted, 40, "1 1 1"},
		{"the first may answer after all", slows{gas(1, 700), hangs()}, 1, nil, 700, "1 1"},
		{"a revert of the hedge, and the first may pass", slows{gas(1, 3000), reverts(20)}, 1, nil, 3000, "1 1"},
		{"a revert of the first, and the hedge may pass", slows{reverts(600), gas(2, 3000)}, 2, nil, 3500, "1 1"},
		{"a revert asks the next at once", slows{reverts(20), gas(2, 20)}, 2, nil, 40, "1 1"},
		{"a revert counts when no other answers", slows{reverts(20), hangs()}, 0, reverted, 10_020, "1 1"},
		{"a node that is down is passed over", slows{down(), gas(2, 20)}, 2, nil, 40, "1 1"},
		{"a revert counts beside a node that is down", slows{down(), reverts(20)}, 0, reverted, 40, "1 1"},
		{"one list of three is not enough", slows{listed(), gas(2, 20), gas(2, 20)}, 2, nil, 40, "1 1 1"},
		{"nor beside one that clears it and reverts", slows{listed(), reverts(20), down()}, 0, reverted, 40, "1 1 1"},
		{"two are", slows{listed(), listed(), gas(0, 20)}, 0, onList, 20, "1 1 1"},
		{"two are, beside one that reverts", slows{reverts(20), listed(), listed()}, 0, onList, 40, "1 1 1"},
		{"and beside one that passes", slows{gas(2, 20), listed(), listed()}, 0, onList, 40, "1 1 1"},
		{"and one where no other answers", slows{listed(), down(), down()}, 0, onList, 40, "1 1 1"},
		{"and one of two", slows{listed(), gas(0, 20)}, 0, onList, 20, "1 0"},
		{"no answer is none", slows{hangs(), hangs()}, 0, nobody, 10_500, "1 1"},
	} {
		t.Run(test.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes := slowly(test.nodes...)
				began := time.Now()
				gas, err := nodes.Estimate(t.Context(), chain.Call{})
				took := time.Since(began).Milliseconds()
				if gas != test.gas || !errors.Is(err, test.err) || took != test.took {
					t.Errorf("%d, %v after %v ms; want %d, %v after %d", gas, err, took, test.gas, test.err, test.took)
				}
				if errors.Is(err, reverted) && errors.Is(err, nobody) {
					t.Errorf("%v is both a refusal and none", err)
				}
				if diff := cmp.Diff(test.asked, asked(test.nodes...)); diff != "" {
					t.Errorf("requests (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestWithin: of three nodes, one that executes a call within its gas is asked alone, and one that says otherwise is
// not believed. Where two differ, a third that hangs has missed.
func TestWithin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, c := priced(60), priced(60), priced(60)
		nodes := slowly(a, b, c)
		for _, test := range []struct {
			a     uint64
			asked string
		}{{60, "1 0 0"}, {60_000, "2 1 0"}} {
			a.gas = test.a
			gas, err := nodes.Estimate(t.Context(), chain.Call{Within: 60})
			if diff := cmp.Diff(test.asked, asked(a, b, c)); gas != 60 || err != nil || diff != "" {
				t.Errorf("%d, %v, requests (-want +got):\n%s", gas, err, diff)
			}
		}
		c.takes = always(time.Hour)
		if _, err := nodes.Estimate(t.Context(), chain.Call{}); err != nil || nodes.Health()[2].Missed != 1 {
			t.Errorf("%v, or it has missed nothing", err)
		}
	})
}

// TestSlowestAnswer: of the answers since Health was last called the slowest counts, of each
// node alone, and a failure is none. A round waits for slow nodes.
func TestSlowestAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := &stub{gas: 1, takes: always(2 * time.Second)}, &stub{gas: 2, takes: always(50 * time.Millisecond)}
		nodes := slowly(a, b)
		slowest := func(want ...time.Duration) {
			t.Helper()
			var got []time.Duration
			for _, h := range nodes.Health() {
				got = append(got, h.Slowest)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("slowest (-want +got):\n%s", diff)
			}
		}
		ask := func() { _, _ = nodes.Views(t.Context(), nobody, nobody, latest) }
		slowest(0, 0)
		ask()
		a.takes = always(100 * time.Millisecond)
		ask()
		slowest(2*time.Second, 50*time.Millisecond)
		a.down = true
		ask()
		slowest(0, 50*time.Millisecond)
	})
}

// TestBreaker follows a node that stops answering and comes back.
func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := &stub{gas: 1, takes: always(0)}, &stub{gas: 2, takes: always(0)}
		nodes := slowly(a, b)
		views := func(want string, wantErr error) {
			t.Helper()
			views, err := nodes.Views(t.Context(), nobody, nobody, latest)
			got := ""
			for _, v := range views {
				got += v.Node.String()
			}
			if got != want || !errors.Is(err, wantErr) {
				t.Errorf("views of %q, %v; want %q, %v", got, err, want, wantErr)
			}
		}
		health(t, nodes, chain.Health{Node: "a"}, chain.Health{Node: "b"})
		a.down = true
		views("b", nil)
		views("b", nil)
		a.down = false
		views("ab", nil)
		health(t, nodes, chain.Health{Node: "a", Missed: 2}, chain.Health{Node: "b"})
		if gas, err := nodes.Estimate(t.Context(), chain.Call{}); gas != 2 || err != nil {
			t.Errorf("asked first: node %d, %v; want the node that never missed", gas, err)
		}
		a.down = true
		for range 3 {
			views("b", nil)
		}
		health(t, nodes, chain.Health{Node: "a", Missed: 3, Silent: true}, chain.Health{Node: "b"})
		a.down, a.asked = false, 0
		views("b", nil) // at once, without a word of a
		b.reverts = true
		if _, err := nodes.Estimate(t.Context(), chain.Call{}); !errors.Is(err, chain.ErrReverted) {
			t.Errorf("b's revert is %v", err)
		}
		b.reverts = false
		b.replies = map[string]chain.Reply{"x": {Class: chain.Wrong}}
		if reply := nodes.Deliver(t.Context(), []byte("x"), nil); reply.Class != chain.Ambiguous {
			t.Errorf("b's refusal is %s, and nobody asked a", reply.Class)
		}
		synctest.Wait()
		if a.asked != 0 {
			t.Errorf("a was asked %d times", a.asked)
		}
		time.Sleep(10 * time.Second)
		views("ab", nil)
		health(t, nodes, chain.Health{Node: "a"}, chain.Health{Node: "b"})

		for range 2 { // bytes that a node takes end its row of misses
			a.down = true
			views("b", nil)
			views("b", nil)
			a.down = false
			nodes.Deliver(t.Context(), []byte("y"), nil)
		}
		health(t, nodes, chain.Health{Node: "a", Missed: 4}, chain.Health{Node: "b"})

		a.down, b.down = true, true
		for range 3 {
			views("", chain.ErrUnavailable)
		}
		a.down = false
		views("a", nil) // where every breaker is open, all are asked
		health(t, nodes, chain.Health{Node: "a", Missed: 3}, chain.Health{Node: "b", Missed: 4, Silent: true})
	})
}

// TestFasterByFar: a node that another one overtakes has left a request unanswered, and a node
// that answers badly is counted once.
func TestFasterByFar(t *testing.T) {
	for why, a := range map[string]*stub{
		"it hangs":         {takes: always(time.Hour)},
		"it answers badly": {down: true, takes: always(usual)},
	} {
		t.Run(why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes := slowly(a, &stub{gas: 2, takes: always(0)})
				if gas, err := nodes.Estimate(t.Context(), chain.Call{}); gas != 2 || err != nil {
					t.Errorf("%d, %v", gas, err)
				}
				health(t, nodes, chain.Health{Node: "a", Missed: 1, Silent: true}, chain.Health{Node: "b"})
			})
		})
	}
}

// TestNoTimeLeft: a request whose time is over asks no other node, and says nothing of one.
func TestNoTimeLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := &stub{takes: always(time.Hour)}, &stub{takes: always(usual)}
		nodes := slowly(a, b)
		ctx, cancel := context.WithTimeout(t.Context(), usual)
		defer cancel()
		for range 3 {
			if _, err := nodes.Estimate(ctx, chain.Call{}); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("an estimate: %v", err)
			}
			if _, err := nodes.Latest(ctx, nobody, nobody); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a view: %v", err)
			}
		}
		health(t, nodes, chain.Health{Node: "a", Missed: 1, Silent: true}, chain.Health{Node: "b"})
		if diff := cmp.Diff("1 0", asked(a, b)); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
	})
}

// TestSend: a node that hangs holds up the bytes for it three times, not for each of
// them, as long as another is well.
func TestSend(t *testing.T) {
	for _, test := range []struct {
		why   string
		alone bool
		took  time.Duration
		asks  int64
	}{{"beside another", false, 30 * time.Second, 3}, {"alone", true, 50 * time.Second, 5}} {
		synctest.Test(t, func(t *testing.T) {
			a, b := &stub{takes: always(time.Hour)}, &stub{takes: always(usual)}
			nodes := slowly(a, b)
			if test.alone {
				nodes = nodes[:1]
			}
			took := took(func() {
				for range 5 {
					if reply := nodes.Send(t.Context(), nodes[0], []byte("x")); reply.Class != chain.Ambiguous {
						t.Errorf("%s: %v", test.why, reply)
					}
				}
			})
			if took != test.took || a.asked != test.asks {
				t.Errorf("%s: %d requests in %v, want %d in %v", test.why, a.asked, took, test.asks, test.took)
			}
			time.Sleep(10 * time.Second)
			a.takes = always(usual)
			if reply := nodes.Send(t.Context(), nodes[0], []byte("x")); reply.Class != chain.Accepted || nodes.Health()[0].Silent {
				t.Errorf("%s: %v once it is well, %v", test.why, reply, nodes.Health())
			}
		})
	}
}

// TestALateNodeIsNotSilent, even while nobody asks it because it was late; one that gave no answer is.
func TestALateNodeIsNotSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for want, c := range map[string]*stub{"[]": {name: "c", takes: always(9 * time.Second)}, "[c]": {name: "c", down: true}} {
			nodes := slowly(&stub{name: "a", takes: always(usual)}, &stub{name: "b", takes: always(usual)}, c)
			for range 3 {
				_, _ = nodes.Latest(t.Context(), nobody, nobody)
			}
			names, ok := nodes.Heads(t.Context(), latest).Silent()
			if got := fmt.Sprint(names); got != want || !ok {
				t.Errorf("%s are silent, %t, want %s", got, ok, want)
			}
		}
	})
}

// TestALateAnswerCounts: a node whose answers come after the caller's time is left alone for a while.
func TestALateAnswerCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late, good := &stub{deaf: true, takes: always(9 * time.Second)}, &stub{takes: always(usual)}
		nodes := slowly(late, good)
		for range 5 {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			views := must.Get(nodes.Latest(ctx, nobody, nobody))(t)
			if cancel(); len(views) != 1 {
				t.Errorf("%d answers count", len(views))
			}
		}
		if late.asked != 3 {
			t.Errorf("the late node is asked %d times, want 3", late.asked)
		}
	})
}

// TestDead: while all nodes miss requests, one caller a second asks whether that is over, and waits a second at most.
// Now and then one makes its request nevertheless: nodes may answer later than that.
func TestDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		takes := func(d time.Duration) *stub { return &stub{takes: always(d)} }
		one, two := takes(time.Hour), takes(time.Hour)
		dead, half := slowly(one, two), slowly(takes(time.Hour), takes(usual))
		for range 8 {
			_, _ = dead.Latest(t.Context(), token.Address{1}, token.Address{2})
			_, _ = half.Latest(t.Context(), token.Address{1}, token.Address{2})
		}
		if half.Dead(t.Context()) {
			t.Error("a node that answers counts as dead")
		}
		for range 3 {
			time.Sleep(time.Second)
			for _, want := range []time.Duration{time.Second, 0, 0} {
				began := time.Now()
				if !dead.Dead(t.Context()) || time.Since(began) != want {
					t.Errorf("a caller waits %v, not %v, or finds nodes alive", time.Since(began), want)
				}
			}
		}
		one.takes, two.takes = always(1200*time.Millisecond), always(1200*time.Millisecond)
		through := 0
		for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(time.Second) {
			if !dead.Dead(t.Context()) {
				through++
			}
		}
		if through != 5 {
			t.Errorf("%d callers make their request in a minute", through)
		}
		if _, err := dead.Latest(t.Context(), token.Address{1}, token.Address{2}); err != nil || dead.Dead(t.Context()) {
			t.Errorf("nodes that answer a request count as dead: %v", err)
		}
		one.takes, two.takes = always(time.Hour), always(time.Hour)
		for range 3 {
			_, _ = dead.Latest(t.Context(), token.Address{1}, token.Address{2})
		}
		one.takes, two.takes = always(usual), always(usual)
		time.Sleep(time.Second)
		for range 2 {
			if dead.Dead(t.Context()) {
				t.Error("nodes that answer again count as dead")
			}
		}
	})
}
