package simulation_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/payments/dispatch"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/proof/simulation"
	"github.com/remit-payouts/remit/internal/proof/simulation/fakechain"
	"github.com/remit-payouts/remit/internal/proof/simulation/oracle"
	"github.com/remit-payouts/remit/internal/proof/simulation/scheduler"
)

// Retries of a whole fleet arrive at once when a load balancer comes back.
func TestSameKeyFromFiftyClients(t *testing.T) {
	simulation.Perform(t, simulation.Setup{Instances: 5}, func(s *simulation.Scenario) {
		var answers []<-chan oracle.Answer
		for i := range 50 {
			answers = append(answers, s.Post(fmt.Sprintf("client%02d", i), i, order(0)))
		}
		hashes := map[chain.Hash]int{}
		for _, a := range answers {
			if got := s.Await(a); got.Err == nil {
				hashes[got.Payment.TxHash]++
			} else {
				s.T.Error(got.Err)
			}
		}
		s.Is("different hashes", len(hashes), 1)
	})
}

// The same key for something else is a client's bug, and must not pay either
// the other thing or the first one again.
func TestKeyUsedForSomethingElse(t *testing.T) {
	for _, state := range []payment.State{payment.Prepared, payment.Committed} {
		perform(t, string(state), simulation.Setup{}, func(s *simulation.Scenario) {
			if state == payment.Prepared {
				s.On("first", "Reserve", 1, scheduler.KillBefore)
			}
			s.Ask("first", order(0))
			other := order(0)
			other.Amount = 7
			s.Is("other content", errors.Is(s.Ask("other", other).Err, dispatch.ErrKeyReused), true)
			s.Is("state", s.State(order(0)), state)
			s.Is("stored", s.Payment(order(0)).Amount.String(), "1000")
		})
	}
}

// A wallet has the coins for each of two payments and not for both. Checked against
// a balance that a node reports, both would be sent, and the second would revert.
func TestTwoPaymentsTogetherExceedTheBalance(t *testing.T) {
	simulation.Perform(t, tight, func(s *simulation.Scenario) {
		a, b := s.Post("a", 0, order(0)), s.Post("b", 1, order(1))
		first, second := s.Await(a), s.Await(b)
		if first.Err == nil {
			first, second = second, first
		}
		s.Is("one is refused", errors.Is(first.Err, dispatch.ErrInsufficient), true)
		s.Is("the other is paid", second.Err, error(nil))
		s.Elapse(3 * time.Minute)
		s.Chain.Fund(fakechain.Wallet(0), unit(1_000), unit(0))
		s.Elapse(2 * time.Minute)
		s.Pay("again", first.Order) // a refusal does not use its key up
	})
}

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

// A handler reserves while a run sums up the amounts that are tied up. The sum
// lacks that reservation, so it is not stored.
func TestReservationWhileARunReconciles(t *testing.T) {
	simulation.Perform(t, tight, func(s *simulation.Scenario) {
		s.Idle, s.Halted = true, true
		// The handler that dies has opened the wallet, and the coins give a run something
		// to store.
		s.Begin("killed", 0, order(0), "Reserve", scheduler.KillBefore)
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
