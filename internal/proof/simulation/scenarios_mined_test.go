package simulation_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/simulation"
	"github.com/remit-payouts/remit/internal/proof/simulation/fakechain"
	"github.com/remit-payouts/remit/internal/proof/simulation/scheduler"
)

// Two payments are mined and not final, and a run remembers them. Meanwhile something else
// happens to them: each ends once.
func TestMinedIsRemembered(t *testing.T) {
	id := wallet.ID{ChainID: 84532, Address: fakechain.Wallet(0)}
	others := map[string]func(*simulation.Scenario){
		"a re-organisation takes them back": func(s *simulation.Scenario) {
			s.Elapse(7 * time.Second)
			s.Chain.Abandon(2)
			s.Chain.Each((*fakechain.Node).Forget)
		},
		"an operator recovers": func(s *simulation.Scenario) { s.Elapse(7 * time.Second); s.StartRecovery() },
		"an item is damaged": func(s *simulation.Scenario) {
			s.Elapse(7 * time.Second)
			s.Store.SpoilPendingTx(id, 1)
			s.Elapse(2 * time.Minute)
			s.IsState(order(1), payment.Committed)
			s.Store.Mend()
		},
	}
	for _, effect := range []string{"Claim", "Head", "Account", "BlockHashes", "Receipts"} {
		others["another run ends them while this one sleeps at "+effect] = func(s *simulation.Scenario) {
			s.On("run1", effect, 1, scheduler.Freeze)
			s.Elapse(22 * time.Second)
			s.StartRun()
			s.After(4*time.Second, order(0), payment.Confirmed)
			s.Thaw()
		}
	}
	for name, happens := range others {
		setup := simulation.Setup{Epoch: 4, ConfirmationRule: chain.ConfirmationRule{Tag: "finalized"}}
		perform(t, name, setup, func(s *simulation.Scenario) {
			s.Elapse(24 * time.Second)
			s.Pay("client", order(0))
			s.Pay("client", order(1))
			s.On("run1", fmt.Sprintf("PendingTxs %x#2", id.Address[18:]), 1, scheduler.Apply)
			s.Elapse(31 * time.Second)
			happens(s)
			s.After(10*time.Minute, order(0), payment.Confirmed)
			s.IsState(order(1), payment.Confirmed)
			s.Pay("client", order(2))
			s.After(3*time.Minute, order(2), payment.Confirmed)
		})
	}
}
