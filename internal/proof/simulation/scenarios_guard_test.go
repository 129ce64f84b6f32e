package simulation_test

import (
	"context"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/proof/simulation"
	"github.com/remit-payouts/remit/internal/proof/simulation/oracle"
	"github.com/remit-payouts/remit/internal/proof/simulation/scheduler"
)

// bill is one bill under a key of an agent's own.
func bill(key string) oracle.Order {
	o := order(0)
	o.Key, o.Guard = key, 24*time.Hour
	return o
}

// Each effect of one agent's payment goes wrong in every way, beside another agent that pays the same bill: one pays,
// within minutes.
func TestGuardUnderFaults(t *testing.T) {
	performEach(t, []string{"Guard", "Payment", "CreateGuarded", "Wallet", "Discard", "Reserve", "Commit", "Release"}, scheduler.Faults(),
		func(s *simulation.Scenario, effect string, o scheduler.Outcome) {
			if effect == "Discard" || effect == "Wallet" || effect == "Payment" { // after one of the other's has died
				s.Begin("dead", 0, bill("b"), "Reserve", scheduler.KillBefore)
				s.Elapse(36 * time.Second)
			}
			s.On("client-a", effect, 1, o)
			s.StartRival("client-a", bill("a"), 30, false)
			s.StartRival("client-b", bill("b"), 30, false)
			s.Elapse(5 * time.Minute)
			s.Is("the recipient has", s.Chain.Account(order(0).To, 0).Coins, unit(1000))
		})
}

// The tables are restored to a copy in which a payment is begun that the chain has: no agent takes its place, neither
// before nor while the tables are recovered.
func TestGuardOfARestoredPayment(t *testing.T) {
	simulation.Perform(t, simulation.Setup{}, func(s *simulation.Scenario) {
		s.Begin("slow", 0, bill("a"), "Reserve", scheduler.Freeze)
		image := s.Store.Image()
		s.Thaw()
		s.After(2*time.Minute, bill("a"), payment.Confirmed)
		s.Lose(image)
		s.Is("before", s.Ask("before", bill("b")).Err != nil, true)
		s.StartRecovery()
		s.StartRival("client", bill("b"), 40, false)
		s.Elapse(10 * time.Minute)
		s.Is("recovered", s.Recovered(), true)
		s.Is("the recipient has", s.Chain.Account(order(0).To, 0).Coins, unit(1000))
		guard, err := s.Store.Guard(context.Background(), bill("a").Request().GuardID(84532, s.Chain.Token))
		if err != nil || len(guard.Payments) != 1 || guard.Payments[0] != bill("a").ID() {
			s.T.Errorf("the guard is %+v, %v", guard, err)
		}
	})
}
