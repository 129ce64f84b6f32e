package simulation

import (
	"time"

	"remit/internal/chain"
)

// A Strike is one fault: the outcome of the n-th effect of a run.
type Strike struct {
	Effect  int
	Outcome Outcome
}

// An Order is a way to choose among effects that wait.
type Order int

// The orders that the exhaustive mode explores.
const (
	FirstCome Order = iota // one actor after the other, clients first
	LastCome               // runs first
	InTurn                 // whoever has waited longest
	Orders
)

// scripted is a decider without chance: an order, and at most two faults.
type scripted struct {
	calm
	order   Order
	strikes []Strike
	effects int
	turns   map[*actor]int
	struck  func(i int, c *call)
}

func (s *scripted) pick(ready []*call) *call {
	switch s.order {
	case LastCome:
		return ready[len(ready)-1]
	case InTurn:
		next := ready[0]
		for _, r := range ready {
			if s.turns[r.actor] < s.turns[next.actor] {
				next = r
			}
		}
		return next
	default:
		return ready[0]
	}
}

func (s *scripted) outcome(c *call) Outcome {
	i := s.effects
	s.effects++
	s.turns[c.actor] = s.effects
	if s.struck != nil {
		s.struck(i, c)
	}
	for _, strike := range s.strikes {
		if strike.Effect == i {
			return strike.Outcome
		}
	}
	return Apply
}

// freeze lasts beyond the script: what is frozen goes on when all is settled.
func (s *scripted) freeze() time.Duration { return time.Hour }

// A Story is what the exhaustive mode tells with every fault in every place.
type Story struct {
	Order   Order
	Clients int
	Strikes []Strike
	Trace   func(string)
	// Effect, if set, sees every effect before it happens.
	Effect func(i int, op string)
}

// Tell runs the story in the bubble it is called in: clients post one payment
// under one key, runs of check-receipts come and go, and reservations are finished
// as soon as they are seen. It returns the broken promises and how many effects
// there were.
func (s Story) Tell() (broken []string, effects int) {
	w := NewWorld(Setup{
		Wallets: 2, Nodes: 1, Instances: 2, Depth: 1, ConfirmationRule: chain.ConfirmationRule{Depth: 1}, Window: 4,
		Coins: 1_000, Ether: 1_000, ReservationAge: time.Nanosecond,
	})
	defer w.Close()
	w.Trace = s.Trace
	d := &scripted{calm: calm{w: w}, order: s.Order, strikes: s.Strikes, turns: map[*actor]int{}}
	if s.Effect != nil {
		d.struck = func(i int, c *call) { s.Effect(i, c.op) }
	}
	r := Request{Key: "key", To: Payee(0), Amount: 700}
	for i := range s.Clients {
		w.StartClient("client"+string(rune('a'+i)), r, 2, true)
	}
	clock := w.clock()
	clock.run = time.Now()
	for time.Since(w.start) < 2*minute {
		w.step(d, clock)
	}
	effects = d.effects
	w.Heal()
	w.Settle()
	w.Replay()
	return w.Verdict(true), effects
}
