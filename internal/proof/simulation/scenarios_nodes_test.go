package simulation_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/proof/simulation"
	"github.com/remit-payouts/remit/internal/proof/simulation/fakechain"
	"github.com/remit-payouts/remit/internal/proof/simulation/scheduler"
)

// "nonce too low" means that the nonce was used. One node says so of a payment's
// bytes, because it has them mined since the run has asked; the other says that it
// will never take them. A payment is given up only if no node can have its bytes.
func TestNonceTooLowFromANodeThatIsAhead(t *testing.T) {
	simulation.Perform(t, simulation.Setup{}, func(s *simulation.Scenario) {
		s.Halted, s.Idle = true, true
		p := s.Pay("client", order(0))
		s.Elapse(2 * time.Minute)
		s.Chain.Nodes[1].Answers = chain.Wrong
		s.On("run", "Send node0", 1, scheduler.Freeze) // of the bytes that have waited
		s.StartRun()
		s.Elapse(time.Second)
		s.Chain.Mine(s.Chain.Nodes[0])
		s.Thaw()
		s.Elapse(10 * time.Second)
		s.Halted, s.Idle = false, false
		s.Elapse(3 * time.Minute)
		got := s.Payment(order(0))
		s.Is("state", got.State, payment.Confirmed)
		s.Is("mined", got.Onchain, p.TxHash)
		for i, a := range got.Attempts {
			s.Is(fmt.Sprintf("attempt %d pays nothing", i), a.Noop, false)
		}
	})
}

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

// A payment that was given up stays so, even if the nodes would take its bytes
// later: a transfer after the no-op would be a second chance that the merchant was
// not told of. With no room for higher fees, the same bytes are no new attempt.
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
