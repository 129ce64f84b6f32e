package simulation_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/simulation"
	"github.com/remit-payouts/remit/internal/proof/simulation/fakechain"
	"github.com/remit-payouts/remit/internal/sandbox/memory"
)

// Tables restored to a moment ago contain a run's note that it has just compared every wallet. No process believes
// that note in another table, nor, once it is minutes old, in a table that replaced the first.
func TestTablesRestoredToAMomentAgo(t *testing.T) {
	for _, test := range []struct {
		since time.Duration
		same  bool // it has the name of the first table
	}{{13 * time.Second, false}, {time.Minute, false}, {5 * time.Minute, false}, {90 * time.Second, true}, {5 * time.Minute, true}} {
		perform(t, fmt.Sprintf("%v ago, under the same name %t", test.since, test.same), simulation.Setup{Wallets: 2},
			func(s *simulation.Scenario) {
				s.Pay("before", order(0))
				s.Elapse(time.Hour)
				image := s.Store.Image()
				compared, err := s.Store.Compared(s.T.Context(), s.Chain.Coin())
				s.Is("compared lately", err == nil && time.Since(compared.At) <= time.Minute+time.Second, true)
				s.Pay("lost", order(1))
				s.Elapse(test.since) // a block at least
				s.Forget(image)
				if compared.Revision = 0; test.same {
					s.Is("stored", s.Store.SetCompared(s.T.Context(), s.Chain.Coin(), compared), nil)
				}
				s.Idle = true
				s.Is("at once", s.Ask("again", order(1)).Refused(), true)
				s.Idle = false
				s.Elapse(5 * time.Minute)
				s.Is("later", s.Ask("again2", order(1)).Refused(), true)
				for n := range 2 {
					s.Is("paused", s.Record(n).Paused != "", true)
				}
			})
	}
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
			s.Is("the other is paused", s.Record(0).Suspect(), damage != nil)
		})
	}
}
