package chain_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/tabletest"
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

// answering returns nodes by their answers: a number or a refusal, and after "@" its milliseconds, if not 20.
func answering(t *testing.T, words string) (all []*stub) {
	for word := range strings.FieldsSeq(words) {
		answer, after, slow := strings.Cut(strings.Replace(word, "hangs", "0@3600000", 1), "@")
		s := &stub{reverts: answer == "reverts", listed: answer == "listed", down: answer == "down", takes: always(usual)}
		s.gas, _ = strconv.ParseUint(answer, 10, 64)
		if slow {
			s.takes = always(time.Duration(must.Get(strconv.Atoi(after))(t)) * time.Millisecond)
		}
		all = append(all, s)
	}
	return all
}

// TestHedge: a row has the nodes, and the estimate or the refusal.
func TestHedge(t *testing.T) {
	tabletest.Run(t, nil, func(t *testing.T, c tabletest.Case) {
		synctest.Test(t, func(t *testing.T) {
			all, began, got := answering(t, c.In[0]), time.Now(), ""
			gas, err := slowly(all...).Estimate(t.Context(), chain.Call{})
			took := time.Since(began).Milliseconds()
			if err == nil || gas > 0 {
				got = fmt.Sprint(gas)
			}
			for i, refusal := range []error{chain.ErrReverted, chain.ErrListed, chain.ErrUnavailable} {
				if errors.Is(err, refusal) {
					got += []string{"reverted", "listed", "nobody"}[i]
				}
			}
			if got = fmt.Sprintf("%s in %d ms, asked %s", got, took, asked(all...)); got != c.Want {
				t.Errorf("%s, want %s; %v", got, c.Want, err)
			}
		})
	})
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

// TestFasterByFar: a node that another one overtakes has left a request unanswered, and a bad answer is counted once.
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

// TestSend: a node that hangs holds up the bytes for it three times, not for each of them, as long as another is well.
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
