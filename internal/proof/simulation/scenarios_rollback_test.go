package simulation_test

import (
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/simulation"
)

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

// An RPC serves a fork. Payments are refused at once where more than half of the nodes do,
// and the word of one of several neither stops nor fools anybody.
func TestRPCFork(t *testing.T) {
	for name, test := range map[string]struct {
		nodes, forked int
		refused       bool
	}{
		"one of one": {1, 1, true}, "one of two": {2, 1, false}, "two of two": {2, 2, true}, "one of three": {3, 1, false},
		"two of three": {3, 2, true},
	} {
		perform(t, name, simulation.Setup{Nodes: test.nodes}, func(s *simulation.Scenario) {
			s.Pay("client", order(0))
			s.After(5*time.Minute, order(0), payment.Confirmed)
			s.Chain.Elsewhere(1, 100, s.Chain.Nodes[:test.forked]...)
			s.Elapse(time.Minute + time.Second)
			s.Is("refused", s.Ask("client", order(1)).Refused(), test.refused)
			s.Elapse(5 * time.Minute)
			s.Is("paused", s.Record(0).RolledBack(), test.refused)
			s.Chain.Return()
			s.Elapse(2 * time.Minute)
			s.Pay("again", order(1))
			s.After(5*time.Minute, order(1), payment.Confirmed)
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
