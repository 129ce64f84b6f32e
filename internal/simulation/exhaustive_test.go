package simulation_test

import (
	"flag"
	"fmt"
	"testing"
	"testing/synctest"

	"remit/internal/simulation"
)

var (
	pairs   = flag.Bool("pairs", false, "explore every pair of faults, not only pairs of writes")
	singles = flag.Bool("singles", raceDetector, "explore single faults only")
)

// tell runs a story in a bubble of its own.
func tell(t *testing.T, s simulation.Story) (broken []string, effects int) {
	synctest.Test(t, func(*testing.T) { broken, effects = s.Tell() })
	return broken, effects
}

// writes are the effects that change something outside the process.
var writes = map[string]bool{
	"POST": true, "Create": true, "Reserve": true, "Commit": true, "Release": true, "Send": true, "Finish": true, "Publish": true,
	"DeletePendingTx": true, "PutNoop": true, "Discard": true, "Reassign": true, "AddAttempt": true, "Open": true,
}

// ways are the outcomes but Apply.
var ways = []simulation.Outcome{
	simulation.FailBefore, simulation.LoseAnswer, simulation.ApplyLate, simulation.Freeze,
	simulation.FreezeDone, simulation.KillBefore, simulation.KillAfter, simulation.KillLate,
}

// An explorer tells one story with every fault.
type explorer struct {
	t     *testing.T
	story simulation.Story
	cases int
}

// try tells the story with strikes, and returns which effects after them may be
// struck next.
func (e *explorer) try(strikes ...simulation.Strike) (next []int) {
	e.cases++
	s := e.story
	s.Strikes = strikes
	s.Effect = func(i int, op string) {
		if (len(strikes) == 0 || i > strikes[len(strikes)-1].Effect) && (*pairs || writes[op]) {
			next = append(next, i)
		}
	}
	broken, _ := tell(e.t, s)
	if len(broken) > 0 {
		s.Trace = func(l string) { fmt.Println(l) }
		tell(e.t, s)
		e.t.Fatalf("order %d, strikes %v: %q", s.Order, s.Strikes, broken)
	}
	return next
}

// TestExhaustive tells the story of one payment with one fault in every place
// and every way, in every order; then with every pair of faults in writes, or,
// with -pairs, every pair there is.
func TestExhaustive(t *testing.T) {
	for order := range simulation.Orders {
		t.Run(fmt.Sprintf("order %d", order), func(t *testing.T) {
			t.Parallel()
			e := explorer{t: t, story: simulation.Story{Order: order, Clients: 2}}
			first := e.try()
			_, effects := tell(t, e.story)
			for i := range effects {
				for _, way := range ways {
					e.try(simulation.Strike{Effect: i, Outcome: way})
				}
			}
			single := e.cases
			if *singles {
				first = nil
			}
			for _, i := range first {
				for _, way := range ways {
					one := simulation.Strike{Effect: i, Outcome: way}
					for _, j := range e.try(one) {
						for _, other := range ways {
							e.try(one, simulation.Strike{Effect: j, Outcome: other})
						}
					}
				}
			}
			t.Logf("%d effects: %d single faults and %d pairs explored", effects, single, e.cases-single)
		})
	}
}
