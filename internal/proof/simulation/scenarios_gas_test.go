package simulation_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/recovery"
	"github.com/remit-payouts/remit/internal/proof/simulation"
	"github.com/remit-payouts/remit/internal/proof/simulation/fakechain"
	"github.com/remit-payouts/remit/internal/proof/simulation/oracle"
	"github.com/remit-payouts/remit/internal/proof/simulation/scheduler"
)

// Runs die before the record has a bump's cost, so two payments are bumped by the same ether, at a
// price that the node asks for a while. Once the first has paid, the second follows the market down
// as soon as the wallet can pay that, and waits for no top-up.
func TestPaymentAtAnAbsurdPrice(t *testing.T) {
	simulation.Perform(t, simulation.Setup{Nodes: 1, Gwei: 12}, func(s *simulation.Scenario) {
		s.Halted = true
		s.Pay("client", order(0))
		s.Pay("client", order(1))
		s.On("run", "Reconcile", 0, scheduler.FailBefore)
		s.Chain.Nodes[0].Quotes = fakechain.Nonsenses["dear"]
		s.Elapse(8 * time.Minute)
		s.Off("Reconcile")
		s.Chain.Nodes[0].Heal()
		s.Chain.BaseFee = unit(400)
		s.Chain.Mine(s.Chain.Nodes[0])
		s.Chain.BaseFee, s.Halted = unit(99_845), false // a little less, and still more than the wallet has
		s.After(3*time.Minute, order(0), payment.Confirmed)
		s.Is("attempts", len(s.Payment(order(1)).Attempts), 2)
		s.Chain.BaseFee = unit(400)
		s.After(3*time.Minute, order(1), payment.Confirmed)
		s.Is("attempts", len(s.Payment(order(1)).Attempts), 3)
		s.Chain.BaseFee = quiet
	})
}

// tokenGas are chains whose gas is the token, by the rule of Arc and by that of Tempo.
var tokenGas = map[string]fakechain.Rule{"to the wei": {Unit: 1_000_000}, "in whole units": {Unit: 1_000_000, Whole: true}}

// The most that one payment pays for gas there, in units of the token: 60,000 gas at 2*100+10 wei.
const mostGas = 13

// The gas price exceeds the balance beside the amounts: the attempts together take no more than this balance,
// and the payments need no top-up when the price falls.
func TestBumpsOutOfTheSameBalance(t *testing.T) {
	for name, rule := range tokenGas {
		perform(t, name, simulation.Setup{Nodes: 1, Gas: rule, Coins: 2*(1000+mostGas) + 30}, func(s *simulation.Scenario) {
			s.Halted = true
			s.Pay("client", order(0))
			s.Pay("client", order(1))
			s.Chain.Each((*fakechain.Node).Forget)
			s.Chain.BaseFee = spike
			s.Elapse(20 * time.Minute)
			txs, _, _ := s.Store.PendingTxs(s.T.Context(), s.Record(0).ID, 0)
			s.Is("promised", txs[0].Amount.String()+" "+txs[1].Amount.String(), "1043 1013")
			s.Chain.BaseFee, s.Halted = unit(400), false
			s.Elapse(3 * time.Minute)
			s.Chain.BaseFee = quiet
			s.After(3*time.Minute, order(0), payment.Confirmed)
			s.IsState(order(1), payment.Confirmed)
			s.Chain.BaseFee = quiet
		})
	}
}

// A transfer of all leaves its own gas behind, and there is no ether to move. A call without any goes on.
func TestSweepLeavesItsGas(t *testing.T) {
	for name, rule := range tokenGas {
		perform(t, name, simulation.Setup{Gas: rule}, func(s *simulation.Scenario) {
			call := sweep("call", true)
			call.Call = []byte("approve")
			ether := sweep("ether", true)
			ether.Amount = 5
			s.Is("ether", s.Ask("client-move", ether).Refused(), true)
			for _, o := range []oracle.Order{call, sweep("all", false)} {
				s.Is("begun", s.Ask("client-move", o).Err, nil)
				s.After(3*time.Minute, o, payment.Confirmed)
			}
			s.Is("at most two fees are left", s.Record(0).Balance.Less(unit(2*mostGas)), true)
			s.Is("and not nothing", s.Record(0).Balance.IsZero(), false)
		})
	}
}

// penniless is a node that shows no coins.
type penniless struct{ chain.Node }

func (n penniless) Account(ctx context.Context, wallet, contract token.Address, head chain.Head) (chain.Account, error) {
	account, err := n.Node.Account(ctx, wallet, contract, head)
	account.Balance = token.Amount{}
	return account, err
}

// A wallet's coins are short of its pending payment. Recovery asks for them where they are its gas too, which its no-ops
// take from them, and for nothing where there is ether to use up the nonce.
func TestRecoveryAsksForGas(t *testing.T) {
	for name, rule := range map[string]fakechain.Rule{"ether": {}, "token": tokenGas["to the wei"]} {
		perform(t, name, simulation.Setup{Gas: rule}, func(s *simulation.Scenario) {
			s.Halted = true
			s.Pay("pending", order(0))
			s.Lose(s.Store.Image())
			s.Halted = false
			asked := false
			s.Is("recovered", s.Recover(simulation.Through(func(n chain.Node) chain.Node { return penniless{n} }), func(r *recovery.Recovery) {
				r.Say = func(format string, args ...any) {
					asked = asked || strings.HasPrefix(fmt.Sprintf(format, args...), "waiting for USDC: send 0.001")
					s.Is("asked for ether", strings.HasPrefix(fmt.Sprintf(format, args...), "waiting for ether"), false)
					txs, _, _ := s.Store.PendingTxs(t.Context(), s.Record(0).ID, 0)
					for _, tx := range txs {
						s.Is("takes ether", !tx.Gas.IsZero(), name == "ether")
					}
				}
			}), true)
			s.Is("asked for the token", asked, name == "token")
		})
	}
}
