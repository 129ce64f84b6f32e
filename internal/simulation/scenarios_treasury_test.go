package simulation_test

import (
	"errors"
	"testing"
	"time"

	"remit/internal/dispatch"
	"remit/internal/payment"
	"remit/internal/simulation"
	"remit/internal/simulation/fakechain"
	"remit/internal/simulation/oracle"
	"remit/internal/token"
)

// Two wallets may spend more together than the treasury has. A payment is made while its
// owner leaves the coins there, and of two for the last of them one fails, unpaid. What
// wallets cannot move, operators cannot either, and nobody pays the treasury.
func TestTreasuryRace(t *testing.T) {
	for name, race := range map[string]func(*simulation.Scenario){
		"two wallets":          func(*simulation.Scenario) {},
		"the treasury's owner": func(s *simulation.Scenario) { s.Chain.Drain() },
	} {
		perform(t, name, simulation.Setup{Wallets: 2, Coins: 1_500, Treasury: 1_900}, func(s *simulation.Scenario) {
			s.Halted = true
			s.Pay("client", order(0))
			s.Pay("client", order(1))
			race(s)
			s.Halted = false
			s.Elapse(4 * time.Minute)
			paid := 0
			for _, o := range []oracle.Order{order(0), order(1)} {
				if p := s.Payment(o); p.State == payment.Confirmed {
					paid++
				} else {
					s.Is("why "+o.Key, codeOf(p), payment.ExecutionReverted)
				}
			}
			s.Is("paid", paid, map[bool]int{true: 1}[name == "two wallets"])
			s.Is("more than is left", errors.Is(s.Ask("client", order(2)).Err, dispatch.ErrInsufficient), true)
			toTreasury := order(3)
			toTreasury.To = s.Chain.Treasury
			s.Is("to the treasury", errors.Is(s.Ask("client", toTreasury).Err, dispatch.ErrOwnWallet), true)
			moved := sweep("move", false)
			moved.Amount = 400
			s.Is("moved", errors.Is(s.Ask("client-move", moved).Err, dispatch.ErrInsufficient), true)
			s.Is("arrived", s.Chain.Account(fakechain.Payee(7), 0).Coins, unit(0))
		})
	}
}

// Tables that forget payments of a treasury's coins find them on the chain, and are told
// from its owner's.
func TestTreasuryPaymentsForgotten(t *testing.T) {
	simulation.Perform(t, simulation.Setup{Coins: 9_000, Treasury: 9_000}, func(s *simulation.Scenario) {
		image := s.Store.Image()
		s.Pay("client", order(0))
		s.After(3*time.Minute, order(0), payment.Confirmed)
		s.Lose(image)
		s.Is("recovered", s.Recover(), true)
		s.Is("whose coins", s.Payment(order(0)).Source, s.Chain.Treasury)
		s.Pay("client", order(0))
		s.IsState(order(0), payment.Confirmed)
	})
}

// So do tables that forget payments of a treasury which another has followed since.
func TestPaymentsOfAPastTreasuryForgotten(t *testing.T) {
	simulation.Perform(t, simulation.Setup{Coins: 9_000, Treasury: 9_000}, func(s *simulation.Scenario) {
		image := s.Store.Image()
		s.Pay("client", order(0))
		s.After(3*time.Minute, order(0), payment.Confirmed)
		past := s.Chain.Treasury
		s.Chain.Treasury, s.Past = token.Address{0: 0x7f}, []token.Address{past}
		s.Lose(image)
		s.Is("recovered", s.Recover(), true)
		s.Is("whose coins", s.Payment(order(0)).Source, past)
	})
}
