package simulation_test

import (
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/proof/simulation"
	"github.com/remit-payouts/remit/internal/proof/simulation/fakechain"
	"github.com/remit-payouts/remit/internal/proof/simulation/scheduler"
)

// quiet and spike are base fees in wei per gas. A spike by eight takes eighteen full blocks; on 1 May 2022 a popular
// sale raised Ethereum's base fee far beyond that in minutes.
var quiet, spike = unit(100), unit(800)

// The price rises and stays: the lowest nonce is bumped until it is mined, and the
// payment keeps its first hash as its public name.
func TestPriceRisesAndStays(t *testing.T) {
	simulation.Perform(t, simulation.Setup{}, func(s *simulation.Scenario) {
		p := s.Pay("client", order(0))
		s.Pay("client", order(1))
		s.Chain.Each((*fakechain.Node).Forget)
		s.Chain.BaseFee = spike
		s.Elapse(10 * time.Minute)
		got := s.Payment(order(0))
		s.Is("state", got.State, payment.Confirmed)
		s.Is("hash", got.TxHash, p.TxHash)
		if len(got.Attempts) < 2 || got.Onchain == got.TxHash {
			s.T.Errorf("%d attempts, %s was mined", len(got.Attempts), got.Onchain)
		}
		s.Is("the one behind it", s.State(order(1)), payment.Confirmed)
		s.Chain.BaseFee = quiet
	})
}

// bumped pays an order and has its fees raised while no block is made and no node is given the bumps.
func bumped(s *simulation.Scenario) payment.Payment {
	s.T.Helper()
	s.Pay("client", order(0))
	s.Halted = true
	s.Chain.BaseFee = spike
	s.On("run", "Send", 0, scheduler.FailBefore)
	s.Elapse(3 * time.Minute)
	s.Chain.BaseFee = quiet
	p := s.Payment(order(0))
	if len(p.Attempts) < 2 {
		s.T.Fatalf("%d attempts", len(p.Attempts))
	}
	return p
}

// The bump is stored and on its way, and the original is mined: receipts are asked for all attempts.
func TestBumpSentAndTheOriginalIsMined(t *testing.T) {
	simulation.Perform(t, simulation.Setup{}, func(s *simulation.Scenario) {
		p := bumped(s)
		s.Halted = false
		s.Elapse(3 * time.Minute)
		got := s.Payment(order(0))
		s.Is("state", got.State, payment.Confirmed)
		s.Is("mined", got.Onchain, p.Attempts[0].Hash)
	})
}

// The run dies at every step of a bump.
func TestBumpInterrupted(t *testing.T) {
	effects := []string{"AddAttempt", "Send node0", "Send node1", "Fees"}
	outcomes := []scheduler.Outcome{scheduler.KillBefore, scheduler.KillAfter, scheduler.LoseAnswer, scheduler.FailBefore, scheduler.Freeze,
		scheduler.ApplyLate}
	performEach(t, effects, outcomes, func(s *simulation.Scenario, effect string, how scheduler.Outcome) {
		s.Pay("client", order(0))
		s.Halted = true
		s.Chain.BaseFee = spike
		s.Elapse(time.Minute)
		s.On("run", effect, 1, how)
		s.Elapse(5 * time.Minute)
		s.Halted = false
		s.Elapse(2 * time.Minute)
		s.Thaw()
		s.IsState(order(0), payment.Confirmed)
	})
}

// A thief's transaction is mined, next_nonce is raised over it, and then a re-organisation removes it for good. Every
// payment after its nonce would wait for ever: a no-op uses the nonce up.
func TestStrangerReorganisedAway(t *testing.T) {
	simulation.Perform(t, simulation.Setup{}, func(s *simulation.Scenario) {
		s.Pay("client", order(0))
		s.Elapse(2 * time.Minute)
		s.Idle = true
		s.Steal(0, 1, 5)
		s.Elapse(13 * time.Second) // mined, once
		s.StartRun()
		s.Elapse(time.Second)
		s.Is("next nonce", s.Record(0).NextNonce, uint64(2))
		s.Halted = true
		s.Chain.Each((*fakechain.Node).Forget)
		s.Chain.Abandon(1)
		s.Chain.Each((*fakechain.Node).Forget)
		s.Idle, s.Halted = false, false
		s.Resume(0)
		s.Pay("client", order(1))
		s.After(3*time.Minute, order(1), payment.Confirmed)
	})
}
