package simulation_test

import (
	"errors"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/payments/dispatch"
	"github.com/remit-payouts/remit/internal/proof/simulation"
	"github.com/remit-payouts/remit/internal/proof/simulation/fakechain"
	"github.com/remit-payouts/remit/internal/proof/simulation/oracle"
	"github.com/remit-payouts/remit/internal/proof/simulation/scheduler"
)

// tight has the coins for one order and not for two.
var tight = simulation.Setup{Coins: 1_500}

// late has a second order simulated and stored while there is still enough for
// it, and about to reserve.
func late(s *simulation.Scenario) <-chan oracle.Answer {
	return s.Begin("late", 1, order(1), "Reserve", scheduler.Freeze)
}

func refusedFor(s *simulation.Scenario, answers <-chan oracle.Answer) {
	s.T.Helper()
	s.Thaw()
	if a := s.Await(answers); !a.Refused() && !errors.Is(a.Err, dispatch.ErrInProgress) {
		s.T.Errorf("a second order of what is there once: %v", a.Err)
	}
	s.Elapse(time.Minute)
}

// All nodes fall back to a block before a settled payment: they show the coins that
// it took, and its pending transaction, which would tie them up, is gone.
func TestAllNodesFallBack(t *testing.T) {
	simulation.Perform(t, tight, func(s *simulation.Scenario) {
		answers := late(s)
		s.Pay("client", order(0))
		s.Elapse(2 * time.Minute)
		s.Chain.Each(func(n *fakechain.Node) { n.Lag = 20 })
		s.Elapse(90 * time.Second)
		s.Chain.Each(func(n *fakechain.Node) { n.Lag = 0 })
		refusedFor(s, answers)
	})
}

// The coins of a reservation that is not signed yet cannot be reserved again.
func TestReservationsAreSpokenFor(t *testing.T) {
	simulation.Perform(t, tight, func(s *simulation.Scenario) {
		s.Idle = true
		answers := late(s)
		s.Begin("dead", 0, order(0), "Reserve", scheduler.KillAfter)
		s.StartRun()
		s.Elapse(5 * time.Second)
		refusedFor(s, answers)
	})
}
