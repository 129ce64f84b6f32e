package simulation_test

import (
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/simulation"
	"github.com/remit-payouts/remit/internal/proof/simulation/fakechain"
	"github.com/remit-payouts/remit/internal/proof/simulation/scheduler"
	"github.com/remit-payouts/remit/internal/sandbox/memory"
)

// In the image a payment holds a nonce of one wallet. It was moved since, and another
// wallet has made it. Nobody commits it at the nonce that it held.
func TestReservationFromBeforeTheLoss(t *testing.T) {
	for _, by := range []string{"a run", "a request", "a run before anybody has noticed"} {
		perform(t, by, simulation.Setup{Wallets: 2}, func(s *simulation.Scenario) {
			s.Idle = true
			s.Pay("opens both", order(9))
			s.Elapse(time.Minute)
			from := 0
			s.On("a", "Reserve", 1, scheduler.Freeze)
			s.On("a", "Commit", 1, scheduler.Freeze)
			s.On("b", "Reassign", 1, scheduler.Freeze)
			s.Post("a", 0, order(0))
			s.Elapse(time.Second)
			if s.Payment(order(0)).Wallet != s.Record(0).Address {
				from = 1
			}
			s.Pause(from, "moved away from")
			s.Post("b", 0, order(0))
			s.Elapse(time.Second)
			s.Resume(from)
			s.Thaw()
			s.Until(func() bool { return len(s.Record(from).Reservations) > 0 })
			image := s.Store.Image()
			s.Is("the image has it reserved", len(s.Record(from).Reservations), 1)
			s.Pay("c", order(0)) // it finds b's frozen write or makes the payment itself
			s.Thaw()
			s.Elapse(time.Minute)
			s.Idle = false
			s.Elapse(4 * time.Minute)
			if by == "a run before anybody has noticed" {
				s.Forget(image)
			} else {
				s.Lose(image)
			}
			s.Elapse(4 * time.Minute) // a run looks at the reservation, and raises next_nonce to the chain's count
			if by == "a request" {
				s.Ask("too early", order(0))
			}
			s.IsState(order(0), payment.Prepared)
			s.Is("recovered", s.Recover(), true)
			s.Pay("again", order(0))
		})
	}
}

// The tables were copied before a bump, and the bump is mined. Its transaction carries
// the payment's id: it is no stranger's.
func TestBumpFromAfterTheImage(t *testing.T) {
	simulation.Perform(t, simulation.Setup{}, func(s *simulation.Scenario) {
		s.Pay("before", order(9))
		s.Elapse(4 * time.Minute)
		s.Chain.BaseFee = unit(900)
		s.Pay("bumped", order(0))
		s.Chain.BaseFee = unit(9_000)
		image := s.Store.Image()
		s.Elapse(10 * time.Minute)
		s.Is("attempts", len(s.Payment(order(0)).Attempts) > 1, true)
		s.Lose(image)
		s.Is("recovered", s.Recover(), true)
		s.Is("paid", s.Pay("again", order(0)).State, payment.Confirmed)
	})
}

// The tables are lost again with a recovery that had begun, and a re-organisation has taken counts back: the no-ops of
// the first reach further than those of the second. When a stranger sends them later, they move nothing, and no wallet
// stops. A payment whose nonce one of them uses has failed.
func TestNoopsOfALostRecovery(t *testing.T) {
	for _, before := range []string{"before a payment", "instead of a payment"} {
		perform(t, before, simulation.Setup{Window: 8}, func(s *simulation.Scenario) {
			s.Idle = true
			for n := range 3 {
				s.Pay("mined", order(n))
			}
			s.Elapse(15 * time.Second)
			s.Lose(memory.NewPayments())
			s.StartRecovery()
			s.Until(func() bool { return s.Record(0).NextNonce > 0 })
			reached := s.Record(0).NextNonce
			s.Chain.Abandon(2)
			s.Chain.Each((*fakechain.Node).Forget)
			s.Lose(memory.NewPayments())
			s.Is("recovered", s.Recover(), true)
			s.Is("reaches less far", s.Record(0).NextNonce < reached, true)
			if before == "instead of a payment" {
				s.On("unsent", "Send", 0, scheduler.FailBefore)
				s.Pay("unsent", order(4))
			}
			s.Chain.Replay()
			s.Elapse(time.Minute)
			s.Idle = false
			s.Elapse(3 * time.Minute)
			s.Is("next nonce", s.Record(0).NextNonce, reached)
			s.Is("paused", s.Record(0).Paused, "")
			if before == "instead of a payment" {
				s.IsState(order(4), payment.Failed)
			}
			s.Pay("again", order(0))
		})
	}
}

// The nodes' pools hold a transaction that the tables have lost and that no block takes: the market has gone up since,
// or the nodes quoted nonsense, as in seed 8040472. Recovery's transaction at its nonce has the same tip, and a cap
// that FeeLimit leaves no room to raise. The pools refuse it until its tip is higher.
func TestLostTransactionBelowTheMarket(t *testing.T) {
	perform(t, "a no-op", simulation.Setup{FeeLimit: unit(1_000)}, func(s *simulation.Scenario) {
		quote := func(kind string) {
			s.Chain.Each(func(on *fakechain.Node) { on.Quotes = fakechain.Nonsenses[kind] })
		}
		s.Idle = true
		s.On("late", "Open", 1, scheduler.Freeze)
		s.On("late", "Commit", 1, scheduler.Freeze)
		s.Post("late", 0, order(0))
		s.Elapse(time.Second)
		s.Pay("paid", order(0))
		quote("free")
		s.Thaw()
		s.Elapse(time.Second)
		s.Pay("next", order(1))
		s.Thaw()
		s.Elapse(time.Minute)
		quote("dear")
		s.Lose(memory.NewPayments())
		s.StartRecovery()
		s.Elapse(time.Minute)
		quote("")
		s.Elapse(time.Hour)
		s.Is("recovered", s.Recovered(), true)
		s.Idle = false
	})
	for _, lost := range []string{"a payment", "a bump"} {
		perform(t, lost, simulation.Setup{FeeLimit: unit(1_000)}, func(s *simulation.Scenario) {
			s.Chain.BaseFee, s.Halted = unit(0), true
			image := memory.NewPayments()
			s.Pay("cheap", order(0))
			if lost == "a bump" {
				image = s.Store.Image()
				s.Chain.BaseFee = unit(20)
				s.Elapse(4 * time.Minute)
				s.Is("attempts", len(s.Payment(order(0)).Attempts), 2)
			}
			s.Chain.BaseFee, s.Halted = unit(800), false
			s.Lose(image)
			s.Is("recovered", s.Recover(), true)
			s.Elapse(time.Minute)
			s.Is("paid before", s.Pay("again", order(0)).State == payment.Confirmed, lost == "a bump")
		})
	}
}

// Operators have not noticed that the tables are empty, or from before the first use of one wallet. A wallet that has
// paid and has no record pays nobody, nor does another that has one or none.
func TestEmptiedTables(t *testing.T) {
	for name, some := range map[string]bool{"no wallet is known": false, "one wallet has no record": true} {
		perform(t, name, simulation.Setup{Wallets: 3}, func(s *simulation.Scenario) {
			s.Pay("before", order(0))
			s.Elapse(4 * time.Minute)
			image := memory.NewPayments()
			for n := 0; some && n < 3; n++ {
				w := s.Record(n)
				r := wallet.Registration{ID: w.ID, Token: s.Chain.Token, State: wallet.Active, Key: wallet.InSecret}
				must.OK(s.T, image.Register(s.T.Context(), r))
				if w.NextNonce == 0 {
					must.OK(s.T, image.Open(s.T.Context(), w, r.Token))
				}
			}
			s.Forget(image)
			for range 3 {
				s.Is("refused", s.Ask("again", order(0)).Refused(), true)
				s.Elapse(2 * time.Minute)
			}
			s.Is("recovered", s.Recover(), true)
			s.Is("paid once", s.Pay("again", order(0)).State, payment.Confirmed)
		})
	}
}
