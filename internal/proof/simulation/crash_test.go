package simulation_test

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/remit-payouts/remit/internal/proof/simulation"
	"github.com/remit-payouts/remit/internal/proof/simulation/scheduler"
)

var (
	pairs   = flag.Bool("pairs", false, "explore every pair of faults, not only pairs in writes")
	singles = flag.Bool("singles", true, "explore single faults only")
	share   = flag.Int("share", 1, "explore one pair in so many")
)

// writes are the operations that change something outside their process.
var writes = strings.Fields(`POST Create Reserve Return Orphan Commit Release Send Finish Publish Enqueue Put DeletePendingTx PutNoop Discard Reassign AddAttempt Open Bind
	Claim Reconcile RaiseCeiling LowerCeiling Advance Pause Repause BumpNoop Charge Refund Register SetCompared`)

func runSchedule(t *testing.T, s simulation.Schedule) (violations []string, effects int) {
	synctest.Test(t, func(*testing.T) { violations, effects = s.Run() })
	return violations, effects
}

func explainSchedule(t *testing.T, s simulation.Schedule, violations []string) {
	t.Helper()
	var trace, faults []string
	s.Trace = func(line string) { trace = append(trace, line) }
	s.Effect = func(i int, op string) {
		for _, f := range s.Faults {
			if f.Effect == i {
				faults = append(faults, fmt.Sprintf("effect %d, %s, is %s", i, op, f.Outcome))
			}
		}
	}
	runSchedule(t, s)
	t.Errorf("%s\nif %s\nits trace:\n%s", strings.Join(violations, "\n"), strings.Join(faults, ", and "), strings.Join(trace, "\n"))
}

// An explorer runs one interleaving with many faults.
type explorer struct {
	t            *testing.T
	interleaving simulation.Interleaving
	schedules    int
}

// try runs the interleaving with faults. It returns how many effects there were, and which later ones may fail next.
func (e *explorer) try(faults ...simulation.Fault) (effects int, next []int) {
	e.schedules++
	s := simulation.Schedule{Interleaving: e.interleaving, Faults: faults}
	s.Effect = func(i int, op string) {
		if (len(faults) == 0 || i > faults[len(faults)-1].Effect) && (*pairs || slices.Contains(writes, op)) {
			next = append(next, i)
		}
	}
	violations, effects := runSchedule(e.t, s)
	if len(violations) > 0 {
		explainSchedule(e.t, s, violations)
		e.t.FailNow()
	}
	return effects, next
}

// TestExhaustive pays one order with one fault in every effect and of every outcome, in every interleaving; with
// -singles=false with every pair of faults in writes too, or, with -pairs, in all effects.
func TestExhaustive(t *testing.T) {
	for interleaving := range simulation.Interleavings {
		t.Run(fmt.Sprintf("interleaving %d", interleaving), func(t *testing.T) {
			t.Parallel()
			e := explorer{t: t, interleaving: interleaving}
			effects, first := e.try()
			outcomes := scheduler.Faults()
			for i := 0; i < effects*len(outcomes); i += inRace(7, 1) {
				e.try(simulation.Fault{Effect: i / len(outcomes), Outcome: outcomes[i%len(outcomes)]})
			}
			single, pair := e.schedules, 0
			if *singles {
				first = nil
			}
			for _, i := range first {
				for _, outcome := range outcomes {
					one := simulation.Fault{Effect: i, Outcome: outcome}
					_, second := e.try(one)
					for _, j := range second {
						for _, other := range outcomes {
							if pair++; pair%*share == 0 {
								e.try(one, simulation.Fault{Effect: j, Outcome: other})
							}
						}
					}
				}
			}
			t.Logf("%d effects: %d single faults and %d pairs explored", effects, single, e.schedules-single)
		})
	}
}
