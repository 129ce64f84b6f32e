package simulation

import (
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/proof/simulation/fakechain"
	"github.com/remit-payouts/remit/internal/proof/simulation/oracle"
	"github.com/remit-payouts/remit/internal/proof/simulation/scheduler"
)

// A Fault is the outcome of the n-th effect of a Schedule, from 0.
type Fault struct {
	Effect  int
	Outcome scheduler.Outcome
}

// An Interleaving is a way to choose among effects that wait.
type Interleaving int

// The interleavings that the exhaustive mode explores.
const (
	ClientsFirst   Interleaving = iota // one actor after the other
	RunsFirst                          // the same the other way about
	LongestWaiting                     // actors in turn
	Interleavings
)

// A Schedule is a simulation without chance: an interleaving and a few faults.
type Schedule struct {
	Interleaving Interleaving
	Faults       []Fault
	Trace        func(string)
	// Effect, if set, sees every effect before it happens.
	Effect func(i int, call string)
}

// Run runs the schedule in the bubble it is called in: two clients post one order under one key, runs of check-receipts
// come and go, and reservations are finished as soon as they are seen. It returns the violations and how many effects
// there were.
func (s *Schedule) Run() (violations []string, effects int) {
	c := NewCluster(Setup{Wallets: 2, Nodes: 1, Instances: 2, Depth: 1,
		ConfirmationRule: chain.ConfirmationRule{Depth: 1}, Window: 4, Coins: 1_000, Gwei: 1_000,
		ReservationAge: time.Nanosecond, Bus: true}, s.Trace)
	defer c.Close()
	p := &scripted{faultless: faultless{}, Schedule: s, turns: map[*scheduler.Actor]int{}}
	for _, name := range []string{"clienta", "clientb"} {
		c.StartClient(name, oracle.Order{Key: "key", To: fakechain.Payee(0), Amount: 700}, 2, true)
	}
	due := newTimetable()
	due.run = time.Now()
	for time.Since(c.start) < 2*time.Minute {
		c.step(p, due)
	}
	effects = p.effects
	return c.Finish(true), effects
}

type scripted struct {
	faultless
	*Schedule
	effects int
	turns   map[*scheduler.Actor]int // the last effect of each actor
}

func (s *scripted) pick(ready []*scheduler.Effect) *scheduler.Effect {
	switch s.Interleaving {
	case RunsFirst:
		return ready[len(ready)-1]
	case LongestWaiting:
		next := ready[0]
		for _, e := range ready {
			if s.turns[e.Actor] < s.turns[next.Actor] {
				next = e
			}
		}
		return next
	default:
		return ready[0]
	}
}

func (s *scripted) outcome(e *scheduler.Effect) scheduler.Outcome {
	i := s.effects
	s.effects++
	s.turns[e.Actor] = s.effects
	if s.Effect != nil {
		s.Effect(i, e.Call.Op)
	}
	for _, f := range s.Faults {
		if f.Effect == i {
			return f.Outcome
		}
	}
	return scheduler.Apply
}

// freeze lasts beyond the script: a frozen effect happens when faults end.
func (s *scripted) freeze() time.Duration { return time.Hour }
