package simulation_test

import (
	"context"
	"fmt"
	"slices"
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
	"github.com/remit-payouts/remit/internal/sandbox/memory"
)

// tokenGas are chains whose gas is the token, by the rule of Arc and by that of Tempo.
var tokenGas = map[string]fakechain.Rule{"to the wei": {Unit: 1_000_000}, "in whole units": {Unit: 1_000_000, Whole: true}}

// The most that one payment pays for gas there, in units of the token: 60,000 gas at 2*100+10 wei.
const mostGas = 13

// Arc and Stable show one balance as balanceOf and as eth_getBalance, and Tempo shows an absurd ether balance
// beside it (docs.arc.io, "Two interfaces, one balance"; docs.tempo.xyz, "EVM Differences"). A wallet
// whose balance covers an amount and not its gas promises nothing.
func TestGasComesOutOfTheSameBalance(t *testing.T) {
	for name, rule := range tokenGas {
		perform(t, name, simulation.Setup{Gas: rule, Coins: 1005}, func(s *simulation.Scenario) {
			s.Is("refused", s.Ask("client", order(0)).Refused(), true)
			s.Elapse(time.Minute)
			s.Chain.Fund(fakechain.Wallet(0), unit(mostGas-5), token.Amount{})
			s.Elapse(time.Minute)
			s.Pay("client", order(0))
			s.Is("nothing is left to promise", s.Record(0).Balance, unit(0))
			s.After(3*time.Minute, order(0), payment.Confirmed)
		})
	}
}

// The price rises until the balance no longer covers it beside the amounts: the attempts take no
// more than that together, and the payments need no top-up when the price falls.
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

// A nonce that its payment left is used up out of the token's balance.
func TestNoopOutOfTheSameBalance(t *testing.T) {
	for name, rule := range tokenGas {
		setup := pair
		setup.Gas = rule
		perform(t, name, setup, func(s *simulation.Scenario) {
			first, _ := moved(s)
			s.Thaw()
			s.Elapse(5 * time.Minute)
			s.Is("mined on the first", s.Chain.Account(fakechain.Wallet(first), 2).Nonce, uint64(1))
			// 21,000 gas at 110 wei.
			s.Is("what the no-op left", s.Record(first).Balance, unit(1_000_000-3))
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

// Another contract receives a recipient's coins (Tempo, TIP-1028): the transfer succeeds, and its
// log names the guard. The coins are gone, so neither a payment nor a batch is "nothing was paid".
func TestCoinsGoToAGuard(t *testing.T) {
	for name, o := range map[string]oracle.Order{"payment": order(0), "batch": batch(0)} {
		perform(t, name, simulation.Setup{Gas: tokenGas["in whole units"]}, func(s *simulation.Scenario) {
			s.Chain.Recipients[order(0).To] = fakechain.Guarded
			s.Pay("client", o)
			s.After(3*time.Minute, o, payment.Failed)
			s.Is("why", codeOf(s.Payment(o)), payment.AmountDiffers)
			s.Pay("client", o) // the same payment, as it ended
			s.Elapse(3 * time.Minute)
			s.Is("transactions", s.Chain.Account(fakechain.Wallet(0), 0).Nonce, uint64(1))
		})
	}
}

// A payment that recovery finds on the chain has the unit of its fee.
func TestRecoveredWhereTheTokenPaysGas(t *testing.T) {
	for name, rule := range tokenGas {
		perform(t, name, simulation.Setup{Gas: rule}, func(s *simulation.Scenario) {
			s.Pay("lost", order(0))
			s.Elapse(4 * time.Minute)
			s.Lose(memory.NewPayments())
			s.Is("recovered", s.Recover(), true)
			s.Is("the fee is in the token", s.Payment(order(0)).Tx.GasUnit, chain.GasUnit(rule.Unit))
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
			s.Is("recovered", s.Recover(func(r *recovery.Recovery) {
				nodes, _ := r.Nodes.Nodes(t.Context())
				nodes = slices.Clone(nodes)
				for i, n := range nodes {
					nodes[i] = penniless{n}
				}
				r.Nodes = nodes
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
