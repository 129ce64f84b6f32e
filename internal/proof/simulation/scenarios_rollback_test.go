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

// Two of three nodes serve a fork, of which one does not say at first which blocks it has, and
// the third has no receipts to contradict them: no payment ends by their word.
func TestRPCForkThatIsHidden(t *testing.T) {
	simulation.Perform(t, simulation.Setup{Nodes: 3}, func(s *simulation.Scenario) {
		s.Pay("client", order(0))
		s.After(5*time.Minute, order(0), payment.Confirmed)
		s.Drain(0)
		s.AddWallet()
		s.Restart(0)
		s.Chain.Elsewhere(1, 100, s.Chain.Nodes[:2]...)
		s.Idle = true
		s.Pay("again", order(1))
		s.Elapse(2 * time.Minute)
		s.On("run", "BlockHashes node1", 1, scheduler.FailBefore)
		s.On("run", "Receipts node2", 1, scheduler.FailBefore)
		s.StartRun()
		s.After(time.Minute, order(1), payment.Committed)
		s.Idle = false
		s.Chain.Return()
		s.After(3*time.Minute, order(1), payment.Confirmed)
	})
}

// A node changes to a fork in the middle of a round, and there the payment has reverted long ago:
// by the heads of the round that is final. No payment ends by heads and receipts of two chains.
func TestRPCForkWithinARound(t *testing.T) {
	simulation.Perform(t, simulation.Setup{Nodes: 1}, func(s *simulation.Scenario) {
		s.Elapse(3 * time.Minute)
		s.Idle, s.Halted = true, true
		s.Pay("client", order(0))
		s.On("run", "Account", 1, scheduler.Freeze)
		s.StartRun()
		s.Elapse(time.Second)
		s.Chain.Recipients[order(0).To] = fakechain.Reverts
		s.Chain.Elsewhere(1, 1, s.Chain.Nodes...)
		s.Chain.Replay()
		s.Chain.Mine(s.Chain.Nodes[0])
		s.Thaw()
		s.After(5*time.Second, order(0), payment.Committed)
		s.Chain.Return()
		s.Chain.Recipients[order(0).To] = fakechain.Pays
		s.Idle, s.Halted = false, false
		s.After(3*time.Minute, order(0), payment.Confirmed)
	})
}

// A node leaves a fork in the middle of a round: by the fork's height, the block that has the
// payment is final, and a re-organisation takes it away.
func TestRPCForkLeftWithinARound(t *testing.T) {
	simulation.Perform(t, simulation.Setup{Nodes: 1}, func(s *simulation.Scenario) {
		s.Elapse(3 * time.Minute)
		s.Idle, s.Halted = true, true
		s.Pay("client", order(0))
		head, err := s.Chain.Nodes[0].Head(s.T.Context(), chain.ConfirmationRule{})
		s.Is("head", err, error(nil))
		s.Chain.Mine(s.Chain.Nodes[0])
		s.Chain.Elsewhere(head.Number, 100, s.Chain.Nodes...)
		s.On("run", "BlockHashes", 1, scheduler.Freeze)
		s.On("run", "Account", 1, scheduler.Freeze)
		s.StartRun()
		s.Elapse(time.Second)
		s.Chain.Return()
		s.Thaw()
		s.After(5*time.Second, order(0), payment.Committed)
		s.Chain.Abandon(1)
		s.Idle, s.Halted = false, false
		s.After(3*time.Minute, order(0), payment.Confirmed)
	})
}

// The chain itself goes back below finality: an operator takes it for the right one. A wallet
// whose payments are gone stays paused, since no nonce of it could be mined; new ones pay.
func TestRollbackBelowFinality(t *testing.T) {
	accept := func(s *simulation.Scenario) {
		s.Accept()
		s.Elapse(2 * time.Minute)
	}
	simulation.Perform(t, simulation.Setup{}, func(s *simulation.Scenario) {
		s.Pay("client", order(0))
		s.After(5*time.Minute, order(0), payment.Confirmed)
		s.Chain.Elsewhere(1, 100, s.Chain.Nodes...)
		s.Elapse(2 * time.Minute)
		s.AddWallet()
		s.Is("refused", s.Ask("client", order(1)).Refused(), true)
		accept(s)
		s.Is("the old wallet is paused", s.Record(0).RolledBack(), true)
		s.Is("the new wallet is paused", s.Record(1).Paused, "")
		s.Halted = true
		p := s.Pay("again", order(1))
		s.Is("it is paid by the new one", p.Wallet, fakechain.Wallet(1))
		s.Chain.Return() // so that the simulation ends with one chain
		s.Halted = false
		accept(s)
		s.IsState(order(1), payment.Confirmed)
		s.Is("the old wallet is paused", s.Record(0).Paused, "")
	})
}

// A stranger sends an old copy of a payment that the chain has rolled back. Its wallet stays paused until the copy is
// final: a re-organisation would leave the nonce without an owner, and payments behind it would wait for ever.
func TestOldCopyAfterARollback(t *testing.T) {
	simulation.Perform(t, simulation.Setup{}, func(s *simulation.Scenario) {
		s.Pay("client", order(0))
		s.After(5*time.Minute, order(0), payment.Confirmed)
		s.Chain.Elsewhere(1, 100, s.Chain.Nodes...)
		s.Elapse(2 * time.Minute)
		s.Accept()
		s.Elapse(2 * time.Minute)
		s.Chain.Replay()
		s.Chain.Mine(s.Chain.Nodes[0])
		s.StartRun()
		s.Elapse(time.Second)
		s.Is("paused while it may be re-organised away", s.Record(0).RolledBack(), true)
		s.Elapse(2 * time.Minute)
		s.Is("paused once it is final", s.Record(0).Paused, "")
		s.Chain.Return() // so that the simulation ends with one chain
		s.Accept()
		s.Elapse(2 * time.Minute)
	})
}

// A wallet is to be opened while nodes serve a fork on which a stranger has used its key. Whether every node or a
// single node reports that use, the wallet is not opened: the chain of the tables lacks that nonce, and payments behind
// it would wait for ever once an operator has resumed the wallet.
func TestFirstUseOnAFork(t *testing.T) {
	for name, forked := range map[string]int{"every node": 3, "the only node that tells": 1} {
		perform(t, name, simulation.Setup{Nodes: 3}, func(s *simulation.Scenario) {
			s.Elapse(3 * time.Minute)
			s.Chain.Elsewhere(1, 0, s.Chain.Nodes[:forked]...)
			s.Steal(0, 0, 5)
			for _, node := range s.Chain.Nodes[forked:] {
				node.Forget()
				s.On("early", "Account "+node.String(), 0, scheduler.FailBefore)
			}
			for range 4 { // until it is final
				s.Chain.Mine(s.Chain.Nodes[0])
			}
			s.Is("refused", s.Ask("early", order(0)).Refused(), true)
			s.Chain.Return()
			s.Chain.Each((*fakechain.Node).Forget)
			s.Elapse(2 * time.Minute)
			if _, err := s.Store.Wallet(s.T.Context(), wallet.ID{ChainID: 84532, Address: fakechain.Wallet(0)}); err == nil {
				s.Resume(0)
			}
			s.Pay("late", order(0))
			s.After(3*time.Minute, order(0), payment.Confirmed)
		})
	}
}

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
