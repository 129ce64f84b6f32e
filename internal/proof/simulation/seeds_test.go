package simulation_test

import (
	"flag"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/remit-payouts/remit/internal/proof/simulation"
)

var (
	seed  = flag.Uint64("seed", 0, "the one seed to run; -v shows its trace")
	seeds = flag.Uint64("seeds", inRace[uint64](100, 1_000), "how many seeds to run")
	from  = flag.Uint64("from", 1, "the first of them")

	merchants = flag.Int("merchants", 0, "how many merchants want one payment each, beside the orders of every seed; 0: a hundred "+
		"in some seeds")
	byzantine = flag.Uint64("byzantine", 25, "in how many of 100 seeds one node of three answers anything; in half of them, but where "+
		"gas is paid in the token, nothing else goes wrong")
	metered = flag.Bool("metered", true, "in these, bound the time of answers and the numbers of requests, reads and writes")
)

// inRace returns race when the race detector is on, which makes simulations some ten times slower.
func inRace[T any](race, otherwise T) T {
	if raceDetector {
		return race
	}
	return otherwise
}

func simulate(t *testing.T, s uint64, r simulation.Reduction, trace func(string)) (violations []string) {
	synctest.Test(t, func(*testing.T) {
		switch chance := s * 0x9e3779b97f4a7c15 >> 32; {
		case chance%100 < *byzantine && chance&1 == 0 && simulation.GasOf(s).Unit == 0:
			violations = simulation.Endure(s, *metered, r, trace)
		default:
			violations = simulation.Simulate(s, *merchants, chance%100 < *byzantine, r, trace)
		}
	})
	return violations
}

func traced(t *testing.T, s uint64, r simulation.Reduction) (violations, trace []string) {
	violations = simulate(t, s, r, func(line string) { trace = append(trace, line) })
	return violations, trace
}

// explain shrinks a seed that violates an invariant and shows the faults that are left of it.
func explain(t *testing.T, s uint64, violations []string) {
	least := simulation.Shrink(func(r simulation.Reduction) bool { return len(simulate(t, s, r, nil)) > 0 })
	shrunk, trace := traced(t, s, least)
	lines := func(of []string) string { return strings.Join(of, "\n\t") }
	t.Errorf("seed %d violates:\n\t%s\nreplay it with\n\tgo test ./internal/proof/simulation -run '^TestSeeds$' -seed=%d "+
		"-merchants=%d -byzantine=%d -metered=%t\nshrunk to %+v it violates:\n\t%s\n\t%s",
		s, lines(violations), s, *merchants, *byzantine, *metered, least, lines(shrunk), lines(simulation.Brief(trace)))
}

// TestSeeds lets chance decide the order of effects and their faults.
func TestSeeds(t *testing.T) {
	if *seed != 0 {
		violations, trace := traced(t, *seed, simulation.Reduction{})
		t.Log("\n" + strings.Join(slices.Concat(violations, trace), "\n"))
		if len(violations) > 0 {
			explain(t, *seed, violations)
		}
		return
	}
	began := time.Now()
	var next, failed atomic.Uint64
	t.Run("all", func(t *testing.T) {
		for shard := range runtime.GOMAXPROCS(0) {
			t.Run(fmt.Sprint(shard), func(t *testing.T) {
				t.Parallel()
				for n := next.Add(1) - 1; n < *seeds && failed.Load() < 3; n = next.Add(1) - 1 {
					if n > 0 && n%50_000 == 0 {
						t.Logf("%d of %d seeds after %s", n, *seeds, time.Since(began).Round(time.Second))
					}
					if violations := simulate(t, *from+n, simulation.Reduction{}, nil); len(violations) > 0 {
						failed.Add(1)
						explain(t, *from+n, violations)
					}
				}
			})
		}
	})
	took := time.Since(began)
	ran := min(next.Load(), *seeds)
	t.Logf("%d of %d seeds from %d in %s, %.0f a second", ran, *seeds, *from, took.Round(time.Second), float64(ran)/took.Seconds())
}

// TestSeedsThatFailed replays the seeds that have found a fault beyond the range of TestSeeds: silence taken for a
// blocked wallet, bumps that cost more than the wallet has, also by a node that stands still beside one that lies, a
// balance of a fork promised again, a chain that one node compared, and an oracle that judged a transfer by the gas
// of an attempt that the tables had lost.
func TestSeedsThatFailed(t *testing.T) {
	defer func(share uint64) { *byzantine = share }(*byzantine)
	for s, share := range map[uint64]uint64{465176: 0, 597881: 0, 100045933: 0, 200071164: 0, 8500008720: 25,
		9500002398: 100, 9600034827: 100} {
		*byzantine = share
		if violations := simulate(t, s, simulation.Reduction{}, nil); len(violations) > 0 {
			explain(t, s, violations)
		}
	}
}

// inOrder sorts the ends of runs that end together, and cuts the reasons of answers to requests whose time is over: all that
// ends at one instant, in any order, and no effect follows.
func inOrder(trace []string) []string {
	for i, line := range trace {
		if to, why, answered := strings.Cut(line, " answers "); answered &&
			(strings.Contains(why, "context deadline exceeded") || strings.Contains(why, "no node answered")) {
			trace[i] = to + " answers late"
		}
	}
	ends := func(line string) bool { return strings.Contains(line, " ends, with errors: ") }
	for i := 0; i < len(trace); i++ {
		j := i
		for j < len(trace) && ends(trace[j]) {
			j++
		}
		slices.Sort(trace[i:j])
		i = max(i, j-1)
	}
	return trace
}

// TestReplay: a seed is worth something only if it does the same every time.
func TestReplay(t *testing.T) {
	for s := *from; s < *from+inRace[uint64](40, 200); s++ {
		_, first := traced(t, s, simulation.Reduction{})
		_, second := traced(t, s, simulation.Reduction{})
		if diff := cmp.Diff(inOrder(first), inOrder(second)); diff != "" {
			t.Fatalf("seed %d went two ways:\n%s", s, diff)
		}
	}
}

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // a seed keeps a few megabytes, and a quarter of its time was the collector's
	m.Run()
}
