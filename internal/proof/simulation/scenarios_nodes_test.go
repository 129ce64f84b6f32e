package simulation_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/simulation"
	"github.com/remit-payouts/remit/internal/proof/simulation/fakechain"
	"github.com/remit-payouts/remit/internal/proof/simulation/scheduler"
)

// Every node refuses the bytes for their gas limit, and the token the recipient by now: no limit pays the payment, and
// all nonces after its nonce would wait. A no-op takes the nonce, and the payment fails.
func TestBytesThatNoNodeWillTake(t *testing.T) {
	for _, limit := range []uint64{0, 210} { // with and without room for higher fees
		perform(t, fmt.Sprintf("fee limit %d", limit), simulation.Setup{FeeLimit: token.Units(limit)}, func(s *simulation.Scenario) {
			s.Halted = true
			p := s.Pay("client", order(0))
			s.Pay("client", order(1))
			s.Chain.Each((*fakechain.Node).Forget)
			s.Chain.Each(func(n *fakechain.Node) { n.Floor = 10_000 })
			s.Chain.Recipients[order(0).To] = fakechain.Reverts
			s.Halted = false
			s.Elapse(12 * time.Minute)
			got := s.Payment(order(0))
			s.Is("code", codeOf(got), payment.TransferMissing)
			s.Is("attempts", len(got.Attempts), 2)
			s.Is("mined", got.Onchain, got.LastAttempt().Hash)
			s.IsState(order(1), payment.Confirmed)
			s.Is("a retry's hash", s.Ask("client", order(0)).Payment.TxHash, p.TxHash)
		})
	}
}

// A payment that was given up stays so, even if the nodes would take its bytes later: a transfer after the no-op would
// be a second chance that the merchant was not told of. Without room for higher fees, the same bytes are no attempt.
func TestCancelledStaysCancelled(t *testing.T) {
	for _, limit := range []uint64{0, 210} {
		perform(t, fmt.Sprintf("fee limit %d", limit), simulation.Setup{FeeLimit: token.Units(limit)}, func(s *simulation.Scenario) {
			s.Halted = true
			s.Chain.Each(func(n *fakechain.Node) { n.Answers = chain.Wrong })
			s.Pay("client", order(0))
			s.Elapse(15 * time.Minute)
			s.Chain.Each(func(n *fakechain.Node) { n.Answers = "" })
			s.Chain.BaseFee = unit(8_000) // above the no-op's fee by now
			s.Elapse(15 * time.Minute)
			s.Chain.BaseFee = quiet
			attempts := s.Payment(order(0)).Attempts
			seen := map[chain.Hash]bool{}
			for i, a := range attempts {
				if a.Noop != (i > 0) || seen[a.Hash] {
					s.T.Errorf("limit %d: attempt %d of %d pays nothing: %t, was there before: %t", limit, i+1, len(attempts), a.Noop, seen[a.Hash])
				}
				seen[a.Hash] = true
			}
			s.Is("more than one attempt", len(attempts) > 1, true)
			s.Halted = false
			s.Elapse(3 * time.Minute)
			s.Is("code", codeOf(s.Payment(order(0))), payment.TransferMissing)
		})
	}
}

// A node is down for hours, as large providers' nodes have been. Under the quorum "answering" a payment is confirmed
// once the node has been silent for five minutes, in which ten processes have settled. Of two nodes, the remaining node
// decides alone; of three, two must agree. Nothing fails without all nodes, and a node that gives any answer counts.
func TestANodeThatIsSilentForLong(t *testing.T) {
	down := func(n *fakechain.Node) { n.Down = true }
	blind := func(n *fakechain.Node) { n.NullReceipts, n.Stuck = true, true }
	for _, test := range []struct {
		name      string
		answering bool
		faults    []func(*fakechain.Node) // of the last nodes
		nodes     int
		confirmed bool
	}{
		{"one of two, strict", false, []func(*fakechain.Node){down}, 2, false},
		{"one of two", true, []func(*fakechain.Node){down}, 2, true},
		{"one of two is stuck", true, []func(*fakechain.Node){func(n *fakechain.Node) { n.Stuck = true }}, 2, false},
		{"one of two is of another chain", true, []func(*fakechain.Node){func(n *fakechain.Node) { n.OtherChain = true }}, 2, false},
		{"one of two lies", true, []func(*fakechain.Node){func(n *fakechain.Node) { n.Lies = fakechain.Lies["status turned"] }}, 2, false},
		{"one of three, and one has no receipts", true, []func(*fakechain.Node){down, blind}, 3, false},
		{"two of three", true, []func(*fakechain.Node){down, down}, 3, false},
		{"two of four", true, []func(*fakechain.Node){down, down}, 4, true},
	} {
		setup := simulation.Setup{Nodes: test.nodes, Estimates: true}
		if test.answering {
			setup.SilentAfter = 5 * time.Minute
		}
		perform(t, test.name, setup, func(s *simulation.Scenario) {
			s.Chain.Recipients[order(2).To] = fakechain.ReturnsFalse
			s.Pay("first", order(0))
			s.After(3*time.Minute, order(0), payment.Confirmed)
			for i, fault := range test.faults {
				fault(s.Chain.Nodes[test.nodes-1-i])
			}
			s.Pay("client", order(1))
			s.Pay("client", order(2))
			s.After(4*time.Minute+30*time.Second, order(1), payment.Committed)
			s.Elapse(2 * time.Minute)
			want := payment.Committed
			if test.confirmed {
				want = payment.Confirmed
			}
			s.IsState(order(1), want)
			s.Elapse(10 * time.Minute)
			s.IsState(order(1), want)
			s.IsState(order(2), payment.Committed)
			s.Is("a wallet's pause", s.Record(0).Paused, "")
			s.Chain.Each((*fakechain.Node).Heal)
			s.After(3*time.Minute, order(1), payment.Confirmed)
			s.IsState(order(2), payment.Failed)
		})
	}
}

// A testnet is reset, as Ropsten's successors have been and every local chain is when it restarts: the tables are ahead
// of the chain. Payments are refused once the new chain has another block where one was final, or has none there for
// ten minutes. Nothing is judged or bumped meanwhile. Once the nodes have the chain of the tables again, all is paid.
func TestTestnetReset(t *testing.T) {
	for name, halted := range map[string]bool{"it grows": false, "it stands still": true} {
		perform(t, name, simulation.Setup{Wallets: 2}, func(s *simulation.Scenario) {
			s.Pay("client", order(0))
			s.After(10*time.Minute, order(0), payment.Confirmed)
			s.Chain.Elsewhere(0, 1, s.Chain.Nodes...)
			s.Halted = halted
			s.Pay("client", order(1)) // no run has looked yet
			s.Chain.BaseFee = spike
			s.Elapse(8 * time.Minute)
			s.Is("refused while nodes may only lag", s.Ask("early", order(2)).Refused(), false)
			s.Elapse(8 * time.Minute)
			s.Is("refused", s.Ask("late", order(3)).Refused(), true)
			for n := range 2 {
				s.Is("paused", s.Record(n).RolledBack(), true)
			}
			s.AddWallet()
			s.Restart(0)
			s.Is("refused by a new wallet", s.Ask("new", order(4)).Refused(), true)
			for n := range 3 {
				s.Is("attempts", len(s.Payment(order(n)).Attempts), 1)
			}
			s.Chain.BaseFee = quiet
			s.Chain.Return()
			s.Halted = false
			s.Elapse(3 * time.Minute)
			s.Pay("again", order(3))
			s.Elapse(3 * time.Minute)
			areConfirmed(s, 4)
		})
	}
}

// One of two nodes is down and the other serves a reset testnet. The quorum answering refuses payments, and resumes
// once the node that answers has the chain again. The quorum strict takes one node's word for neither, and rings.
func TestResetBehindASilentNode(t *testing.T) {
	for quorum, after := range map[string]time.Duration{"strict": 0, "answering": 5 * time.Minute} {
		perform(t, quorum, simulation.Setup{SilentAfter: after}, func(s *simulation.Scenario) {
			s.Pay("client", order(0))
			s.After(5*time.Minute, order(0), payment.Confirmed)
			s.Chain.Nodes[1].Down = true
			s.Chain.Elsewhere(0, 1, s.Chain.Nodes[0])
			rings := func() bool {
				all := s.Reports()
				return all[len(all)-1].Paused > 0
			}
			s.Elapse(4 * time.Minute)
			s.Is("rings while nodes may only lag", rings(), false)
			s.Elapse(8 * time.Minute)
			s.Is("rings", rings(), true)
			s.Is("refused", s.Ask("client", order(1)).Refused(), after > 0)
			s.Chain.Return()
			s.Elapse(2 * time.Minute)
			s.Is("paused", s.Record(0).Paused, "")
			s.Is("rings", rings(), false)
			s.Chain.Nodes[1].Heal()
			s.Pay("again", order(1))
			s.After(5*time.Minute, order(1), payment.Confirmed)
		})
	}
}

// A stranger sends an old copy of a payment that the chain has rolled back. Its wallet stays paused until the copy is
// final: a re-organisation would leave the nonce without an owner, and payments behind it would wait for ever.
func TestOldCopyAfterARollback(t *testing.T) {
	simulation.Perform(t, simulation.Setup{}, func(s *simulation.Scenario) {
		s.Pay("client", order(0))
		s.After(5*time.Minute, order(0), payment.Confirmed)
		s.Chain.Elsewhere(1, 100, s.Chain.Nodes...)
		s.Elapse(2 * time.Minute)
		must.OK(s.T, s.Accept())
		s.Elapse(2 * time.Minute)
		s.Chain.Replay()
		s.Chain.Mine(s.Chain.Nodes[0])
		s.StartRun()
		s.Elapse(time.Second)
		s.Is("paused while it may be re-organised away", s.Record(0).RolledBack(), true)
		s.Elapse(2 * time.Minute)
		s.Is("paused once it is final", s.Record(0).Paused, "")
		s.Chain.Return() // so that the simulation ends with one chain
		must.OK(s.T, s.Accept())
		s.Elapse(2 * time.Minute)
	})
}

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
