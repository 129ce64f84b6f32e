package simulation_test

import (
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/wallet"
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

// The tables are lost again with a recovery that had begun, and a re-organisation has taken counts back: the no-ops of
// the first reach further than those of the second. Sent later by a stranger, they move nothing, and no wallet stops.
func TestNoopsOfALostRecovery(t *testing.T) {
	simulation.Perform(t, simulation.Setup{Window: 8}, func(s *simulation.Scenario) {
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
		s.Chain.Replay()
		s.Elapse(time.Minute)
		s.Idle = false
		s.Elapse(3 * time.Minute)
		s.Is("next nonce", s.Record(0).NextNonce, reached)
		s.Is("paused", s.Record(0).Paused, "")
		s.Pay("again", order(0))
	})
}

// A wallet's record is damaged. New processes pay from the other wallet, payments in flight on the
// damaged wallet settle, a run reconciles a record or counts a registration, and a thief who uses
// the damaged wallet's key still stops every wallet.
func TestDamagedWallet(t *testing.T) {
	spoil := map[string]func(*memory.Payments, wallet.ID){
		"record": (*memory.Payments).SpoilWallet, "registration": (*memory.Payments).SpoilRegistration, "registration, never opened": nil,
	}
	for name, damage := range spoil {
		perform(t, name, simulation.Setup{Wallets: 2}, func(s *simulation.Scenario) {
			s.Pending = true
			id := wallet.ID{ChainID: s.Chain.ID, Address: fakechain.Wallet(1)}
			if damage == nil {
				s.Store.SpoilRegistration(id)
			}
			for n := range 4 { // from both wallets, if both are open
				s.Pay("before", order(n))
			}
			s.Idle = true
			if damage != nil {
				damage(s.Store, id)
			}
			for i := range 2 {
				s.Restart(i)
			}
			for n := range 4 {
				s.Is("paid by the other", s.Pay("after", order(4+n)).Wallet, fakechain.Wallet(0))
			}
			s.Idle = false
			s.Elapse(4 * time.Minute)
			counted := 0
			areConfirmed(s, 8)
			for _, r := range s.Reports() {
				counted += r.Unreadable
			}
			s.Is("counted", counted > 0, name != "record")
			if damage != nil {
				s.Is("damaged", s.Record(1).Damaged, "")
			}
			s.Steal(1, s.Chain.Nodes[0].Mined(id.Address), 5)
			s.Elapse(15 * time.Second)
			s.Restart(0)
			s.Is("refused by a new process", s.Ask("ahead", order(9)).Refused(), true)
			s.Elapse(2 * time.Minute)
			s.Is("the other is paused", s.Record(0).Suspect(), true)
		})
	}
}

// TestATornOpening: a copy has a wallet's record and not that its registration was opened. While the chain is ahead of
// another wallet, that one pays nothing either: a key may have paid; and once it pays again, its payments settle.
func TestATornOpening(t *testing.T) {
	perform(t, "torn", simulation.Setup{Wallets: 2}, func(s *simulation.Scenario) {
		s.Pay("opens both", order(9))
		s.Elapse(4 * time.Minute)
		image := s.Store.Image()
		lost := s.Pay("lost", order(0))
		s.Elapse(4 * time.Minute)
		for n := range 2 {
			if a := fakechain.Wallet(n); a != lost.Wallet {
				image.TearOpen(wallet.ID{ChainID: s.Chain.ID, Address: a})
			}
		}
		s.Forget(image)
		s.Elapse(4 * time.Minute)
		s.Is("answered while the chain is ahead", s.Ask("again", order(0)).Err != nil, true)
	})
}
