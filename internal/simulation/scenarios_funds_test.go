package simulation_test

import (
	"errors"
	"testing"
	"time"

	"remit/internal/dispatch"
	"remit/internal/simulation"
	"remit/internal/simulation/fakechain"
	"remit/internal/simulation/oracle"
	"remit/internal/simulation/scheduler"
)

// tight has the coins for one order and not for two.
var tight = simulation.Setup{Coins: 1_500}

// late has a second order simulated and stored while there is still enough for
// it, and about to reservation.
func late(s *simulation.Scenario) <-chan oracle.Answer {
	answers := s.Begin("late", 1, order(1), "Reserve", scheduler.Freeze)
	return answers
}

func refusedFor(s *simulation.Scenario, answers <-chan oracle.Answer) {
	s.T.Helper()
	s.Thaw()
	if a := s.Await(answers); !a.Refused() && !errors.Is(a.Err, dispatch.ErrInProgress) {
		s.T.Errorf("a second order of what is there once: %v", a.Err)
	}
	s.Elapse(time.Minute)
}

// A node whose head moved while it was asked gives the count of one block and
// the balance of another.
func TestBalanceOfAnotherBlock(t *testing.T) {
	simulation.Perform(t, tight, func(s *simulation.Scenario) {
		s.Idle = true
		answers := late(s)
		s.Pay("client", order(0))
		s.Elapse(13 * time.Second)
		s.Chain.Each(func(n *fakechain.Node) { n.Unsteady = true })
		s.StartRun()
		s.Elapse(2 * time.Second)
		refusedFor(s, answers)
	})
}

// A handler reserves while a run sums up the amounts that are tied up. The sum
// lacks that reservation, so it is not stored.
func TestReservationWhileARunReconciles(t *testing.T) {
	simulation.Perform(t, tight, func(s *simulation.Scenario) {
		s.Idle, s.Halted = true, true
		// The refused order opens the wallet, and the coins give a run something to
		// store.
		s.Is("too much", s.Ask("client", oracle.Order{Key: "much", To: fakechain.Payee(9), Amount: 2000}).Refused(), true)
		s.Chain.Fund(fakechain.Wallet(0), unit(100), unit(0))
		s.On("run", "Reconcile", 1, scheduler.Freeze)
		s.StartRun()
		s.Elapse(2 * time.Second)
		s.Pay("client", order(0))
		s.Thaw()
		s.Elapse(time.Second)
		s.Is("a second order of what is there once", s.Ask("client", order(1)).Refused(), true)
	})
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
