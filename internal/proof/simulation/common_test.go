package simulation_test

import (
	"fmt"
	"testing"

	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/proof/simulation"
	"github.com/remit-payouts/remit/internal/proof/simulation/fakechain"
	"github.com/remit-payouts/remit/internal/proof/simulation/oracle"
	"github.com/remit-payouts/remit/internal/proof/simulation/scheduler"
)

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
