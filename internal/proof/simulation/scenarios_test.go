package simulation_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/dispatch"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/proof/simulation"
	"github.com/remit-payouts/remit/internal/proof/simulation/fakechain"
	"github.com/remit-payouts/remit/internal/proof/simulation/oracle"
	"github.com/remit-payouts/remit/internal/proof/simulation/scheduler"
	"github.com/remit-payouts/remit/internal/sandbox/memory"
)

// tight has the coins for one order and not for two.
var tight = simulation.Setup{Coins: 1_500}

// late has a second order simulated and stored while there is still enough for it, and about to reserve.
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

// batch is the n-th order as a batch, which pays its recipient the same amount twice, and another one.
func batch(n int) oracle.Order {
	o := order(n)
	return o.Batched(payment.Entry{To: o.To, Amount: unit(o.Amount)}, payment.Entry{To: other(n), Amount: unit(7)})
}

func other(n int) token.Address { return fakechain.Payee(50 + n) }

// Each effect of a batch goes wrong in every way: it is paid once, each entry as often as it was asked for.
func TestBatchUnderFaults(t *testing.T) {
	performEach(t, []string{"Estimate", "Create", "Reserve", "Commit", "Release", "Send"}, scheduler.Faults(),
		func(s *simulation.Scenario, effect string, o scheduler.Outcome) {
			s.On("client", effect, 1, o)
			s.StartClient("client", batch(0), 6, true)
			s.After(6*time.Minute, batch(0), payment.Confirmed)
			s.Is("the first recipient has", s.Chain.Account(order(0).To, 0).Coins, unit(2000))
			s.Is("the other has", s.Chain.Account(other(0), 0).Coins, unit(7))
		})
}

// The tables are lost with batches that are mined. The chain tells their entries, and a
// retry is answered with the batch that was made.
func TestLostBatches(t *testing.T) {
	simulation.Perform(t, simulation.Setup{}, func(s *simulation.Scenario) {
		s.Pay("mined", batch(0))
		s.Pay("mined", order(1))
		s.Elapse(4 * time.Minute)
		s.Lose(memory.NewPayments())
		s.Is("recovered", s.Recover(), true)
		turned := batch(0)
		turned.Entries = []payment.Entry{turned.Entries[2], turned.Entries[0], turned.Entries[1]}
		s.Is("in another order", errors.Is(s.Ask("other", turned).Err, dispatch.ErrKeyReused), true)
		p := s.Pay("again", batch(0))
		s.Is("state", p.State, payment.Confirmed)
		s.Is("entries", len(p.Entries), 3)
		s.Is("the single one", s.Pay("again", order(1)).State, payment.Confirmed)
	})
}

func unit(n uint64) token.Amount { return token.Units(n) }

// order is the n-th payment that a merchant wants.
func order(n int) oracle.Order {
	return oracle.Order{Key: fmt.Sprintf("key%d", n), To: fakechain.Payee(n), Amount: 1000}
}

// payFirst has a client pay the first n orders.
func payFirst(s *simulation.Scenario, client string, n int) {
	s.T.Helper()
	for i := range n {
		s.Pay(client, order(i))
	}
}

// areConfirmed fails the scenario unless the payments of the first n orders are confirmed.
func areConfirmed(s *simulation.Scenario, n int) {
	s.T.Helper()
	for i := range n {
		s.IsState(order(i), payment.Confirmed)
	}
}

// codeOf is why a payment failed, "" if it did not.
func codeOf(p payment.Payment) payment.FailureCode {
	if p.Failure == nil {
		return ""
	}
	return p.Failure.Code
}

func is(t *testing.T, what string, got, want any) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// perform performs a scenario in a subtest.
func perform(t *testing.T, name string, setup simulation.Setup, scenario func(*simulation.Scenario)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { simulation.Perform(t, setup, scenario) })
}

// performEach performs a scenario for every outcome of every effect.
func performEach(t *testing.T, effects []string, outcomes []scheduler.Outcome,
	scenario func(s *simulation.Scenario, effect string, o scheduler.Outcome)) {
	t.Helper()
	for _, effect := range effects {
		for _, o := range outcomes {
			perform(t, fmt.Sprintf("%s %s", effect, o), simulation.Setup{}, func(s *simulation.Scenario) { scenario(s, effect, o) })
		}
	}
}
