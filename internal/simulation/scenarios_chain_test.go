package simulation_test

import (
	"testing"
	"time"

	"remit/internal/chain"
	"remit/internal/payment"
	st "remit/internal/simulation"
)

// quiet and spike are base fees; a spike by eight takes eighteen full blocks.
// On 1 May 2022 a popular sale took Ethereum's far beyond that in minutes.
var quiet, spike = unit(100), unit(800)

// A spike evicts the transaction everywhere; then the price falls.
func TestEvictedThenThePriceFalls(t *testing.T) {
	setup := plain()
	setup.FeeLimit = unit(300)
	st.Perform(t, setup, func(s *st.Stage) {
		s.Chain.BaseFee = spike
		s.Pay("client", order(0))
		for range 10 {
			for _, n := range s.Chain.Nodes {
				n.StrictFees = true
				n.Forget()
			}
			s.Pass(time.Minute)
		}
		is(t, "state", s.State(order(0)), payment.Committed)
		for _, n := range s.Chain.Nodes {
			n.StrictFees = false
		}
		s.Chain.BaseFee = quiet
		s.Pass(3 * time.Minute)
		is(t, "state", s.State(order(0)), payment.Confirmed)
	})
}

// The price rises and stays: the lowest nonce is bumped until it is mined, and
// its first hash stays its name.
func TestPriceRisesAndStays(t *testing.T) {
	st.Perform(t, plain(), func(s *st.Stage) {
		p := s.Pay("client", order(0))
		s.Pay("client", order(1))
		for _, n := range s.Chain.Nodes {
			n.Forget()
		}
		s.Chain.BaseFee = spike
		s.Pass(10 * time.Minute)
		got := s.Payment(order(0))
		is(t, "state", got.State, payment.Confirmed)
		is(t, "hash", got.TxHash, p.TxHash)
		if len(got.Attempts) < 2 || got.Onchain == got.TxHash {
			t.Errorf("%d attempts, %s was mined", len(got.Attempts), got.Onchain)
		}
		is(t, "the one behind it", s.State(order(1)), payment.Confirmed)
		s.Chain.BaseFee = quiet
	})
}

// bumped pays an order and has its fees raised while nothing is mined, without
// the nodes of the miners hearing of the bump.
func bumped(t *testing.T, s *st.Stage) payment.Payment {
	t.Helper()
	s.Pay("client", order(0))
	s.Halted = true
	s.On("run", "Send", 0, st.FailBefore)
	s.Pass(3 * time.Minute)
	p := s.Payment(order(0))
	if len(p.Attempts) < 2 {
		t.Fatalf("%d attempts", len(p.Attempts))
	}
	return p
}

// The bump is stored and on its way, and the original is mined: receipts are
// asked for all attempts.
func TestBumpSentAndTheOriginalIsMined(t *testing.T) {
	st.Perform(t, plain(), func(s *st.Stage) {
		p := bumped(t, s)
		s.Halted = false
		s.Pass(3 * time.Minute)
		got := s.Payment(order(0))
		is(t, "state", got.State, payment.Confirmed)
		is(t, "mined", got.Onchain, p.Attempts[0].Hash)
	})
}

// The bump is mined, and a merchant asks for the hash it was told first.
func TestBumpIsMinedAndTheOriginalAskedFor(t *testing.T) {
	st.Perform(t, plain(), func(s *st.Stage) {
		p := bumped(t, s)
		s.Off("Send")
		for _, n := range s.Chain.Nodes {
			n.Forget()
		}
		s.Pass(time.Minute)
		s.Halted = false
		s.Pass(3 * time.Minute)
		for _, a := range s.Payment(order(0)).Attempts {
			found, err := s.Store.PaymentByHash(t.Context(), a.Hash)
			if err != nil || found.TxHash != p.TxHash || found.State != payment.Confirmed {
				t.Errorf("by %s: %s %s, %v", a.Hash, found.TxHash, found.State, err)
			}
		}
		if s.Payment(order(0)).Onchain == p.TxHash {
			t.Error("the original was mined")
		}
	})
}

// The run dies at every step of a bump.
func TestBumpInterrupted(t *testing.T) {
	for _, effect := range []string{"AddAttempt", "Send node0", "Send node1", "Fees"} {
		for _, how := range []st.Outcome{st.KillBefore, st.KillAfter, st.LoseAnswer, st.FailBefore, st.Freeze, st.ApplyLate} {
			st.Perform(t, plain(), func(s *st.Stage) {
				s.Pay("client", order(0))
				s.Halted = true
				s.Pass(time.Minute)
				s.On("run", effect, 1, how)
				s.Pass(5 * time.Minute)
				s.Halted = false
				s.Pass(2 * time.Minute)
				s.Thaw()
				is(t, "state", s.State(order(0)), payment.Confirmed)
			})
		}
	}
}

// However often its fees are raised, and also once it is mined, a payment counts
// as pending since it was committed: whoever watches over that is told in time.
func TestOldestPending(t *testing.T) {
	setup := plain()
	setup.Depth, setup.ConfirmationRule = 3, chain.ConfirmationRule{Tag: "finalized"}
	st.Perform(t, setup, func(s *st.Stage) {
		s.Halted = true
		s.Pay("client", order(0))
		s.Pass(30 * time.Minute)
		if n := len(s.Payment(order(0)).Attempts); n < 3 {
			t.Errorf("%d attempts in half an hour", n)
		}
		s.Chain.Mine(s.Chain.Nodes[0])
		s.Pass(2 * time.Minute)
		is(t, "state", s.State(order(0)), payment.Committed)
		reports := s.Reports()
		if last := reports[len(reports)-1]; last.Oldest < 30*time.Minute || last.Pending != 1 {
			t.Errorf("after 32 minutes the oldest of %d pending is %v old", last.Pending, last.Oldest)
		}
		s.Halted = false
	})
}

// Two branches mine different attempts of one payment; one of them wins.
func TestBothForksMineDifferentAttempts(t *testing.T) {
	for winner := range 2 {
		st.Perform(t, plain(), func(s *st.Stage) {
			p := bumped(t, s)
			s.Off("Send")
			other := s.Chain.Nodes[1]
			other.Deaf = true
			s.Chain.Nodes[0].Deaf = true
			s.On("run", "Send node0", 0, st.FailBefore)
			other.Forget()
			s.Pass(20 * time.Second) // node1 takes the bump, node0 holds the original
			s.Chain.Mine(s.Chain.Nodes[winner])
			s.Pass(10 * time.Second)
			s.Chain.Reorg(1, s.Chain.Nodes[1-winner])
			s.Halted = false
			s.Pass(3 * time.Minute)
			got := s.Payment(order(0))
			is(t, "state", got.State, payment.Confirmed)
			_ = p
		})
	}
}

// In May 2022 the beacon chain re-organised seven blocks. Before finality
// nothing is final.
func TestReorgBeforeConfirmationRule(t *testing.T) {
	st.Perform(t, plain(), func(s *st.Stage) {
		s.Idle = true
		s.Pay("client", order(0))
		s.Pass(13 * time.Second) // mined, once
		s.StartRun()
		s.Pass(time.Second)
		is(t, "after one block", s.State(order(0)), payment.Committed)
		for _, n := range s.Chain.Nodes {
			n.Forget()
		}
		s.Halted = true
		s.Chain.Abandon(1) // replaced by blocks without it
		s.Pass(2 * time.Minute)
		is(t, "after the reorg", s.State(order(0)), payment.Committed)
		s.Idle, s.Halted = false, false
		s.Pass(3 * time.Minute)
		is(t, "in the end", s.State(order(0)), payment.Confirmed)
	})
}

// A transfer that succeeded is mined again after a reorg, and reverts: the
// token has put the recipient on its list meanwhile (USDC, 8 August 2022).
func TestReminedAsReverted(t *testing.T) {
	st.Perform(t, plain(), func(s *st.Stage) {
		s.Pay("client", order(0))
		s.Pass(13 * time.Second)
		s.Chain.Recipients[order(0).To] = st.Reverts
		s.Chain.Reorg(1, s.Chain.Nodes[0])
		s.Pass(3 * time.Minute)
		got := s.Payment(order(0))
		is(t, "state", got.State, payment.Failed)
		is(t, "code", codeOf(got), payment.ExecutionReverted)
	})
}

// Tokens that return false instead of reverting, or take a fee on the way, are
// collected in the "weird ERC-20" lists of auditors.
func TestTokensThatMoveNothing(t *testing.T) {
	for _, behaviour := range []st.Recipient{st.ReturnsFalse, st.LogsLess} {
		st.Perform(t, plain(), func(s *st.Stage) {
			s.Chain.Recipients[order(0).To] = behaviour
			s.Pay("client", order(0))
			s.Pass(3 * time.Minute)
			got := s.Payment(order(0))
			is(t, "state", got.State, payment.Failed)
			is(t, "code", codeOf(got), payment.TransferMissing)
		})
	}
}

// A recipient that the token refuses is refused by us, before anything starts.
func TestRecipientOnTheTokensList(t *testing.T) {
	st.Perform(t, plain(), func(s *st.Stage) {
		s.Chain.Recipients[order(0).To] = st.Reverts
		is(t, "refused", s.Ask("client", order(0)).Refused(), true)
		is(t, "stored", s.State(order(0)), payment.State(""))
	})
}

// BNB Chain stood still for hours in October 2022, Base for 45 minutes in
// September 2023, and providers go down with their chain.
func TestChainHaltedAndNodesDown(t *testing.T) {
	st.Perform(t, plain(), func(s *st.Stage) {
		p := s.Pay("client", order(0))
		s.Halted = true
		for _, n := range s.Chain.Nodes {
			n.Down = true
			n.Forget()
		}
		s.Pass(time.Minute)
		is(t, "a new payment is refused", s.Ask("client", order(1)).Refused(), true)
		again := s.Ask("client", order(0))
		is(t, "the old one is replayed", again.Payment.TxHash, p.TxHash)
		s.Pass(2 * time.Hour)
		is(t, "state", s.State(order(0)), payment.Committed)
		for _, n := range s.Chain.Nodes {
			n.Down = false
		}
		s.Halted = false
		s.Pass(3 * time.Minute)
		is(t, "state", s.State(order(0)), payment.Confirmed)
		is(t, "hash", s.Payment(order(0)).TxHash, p.TxHash)
	})
}

// The nodes go down between the reservation and the broadcast: 201 all the same, since
// the bytes are stored.
func TestCommittedWhileAllNodesAreDown(t *testing.T) {
	st.Perform(t, plain(), func(s *st.Stage) {
		s.On("client", "Send", 0, st.FailBefore)
		s.Pay("client", order(0))
		s.Pass(3 * time.Minute)
		is(t, "state", s.State(order(0)), payment.Confirmed)
	})
}

// A run that read the pending transactions before a bump finds the nonce used by a hash that
// it does not know: it is our own, stored since.
func TestBumpIsNoStranger(t *testing.T) {
	setup := plain()
	setup.Depth, setup.ConfirmationRule.Depth = 1, 1
	st.Perform(t, setup, func(s *st.Stage) {
		s.Idle, s.Halted = true, true
		s.Pay("client", order(0))
		s.Pass(58 * time.Second)
		s.On("run1", "Account", 2, st.Freeze) // on both nodes
		s.StartRun()
		s.Pass(17 * time.Second)
		s.On("run2", "Send node1 0000#0 237", 1, st.KillAfter) // the bump, by its fee cap
		s.StartRun()
		s.Pass(time.Second)
		is(t, "attempts", len(s.Payment(order(0)).Attempts), 2)
		s.Halted = false
		s.Pass(25 * time.Second)
		is(t, "state", s.State(order(0)), payment.Committed)
		s.Thaw()
		s.Pass(time.Second)
		is(t, "paused", s.Record(0).Paused, "")
		is(t, "code", codeOf(s.Payment(order(0))), payment.FailureCode(""))
	})
}

// A stranger's transaction is mined, next_nonce is raised over it, and then a
// re-organisation removes it for good. Its nonce belongs to nobody any more, and
// whatever is paid after it would wait for ever: a no-op fills it.
func TestStrangerReorganisedAway(t *testing.T) {
	st.Perform(t, plain(), func(s *st.Stage) {
		s.Pay("client", order(0))
		s.Pass(2 * time.Minute)
		s.Idle = true
		s.Steal(0, 1, 5)
		s.Pass(13 * time.Second) // mined, once
		s.StartRun()
		s.Pass(time.Second)
		is(t, "next nonce", s.Record(0).NextNonce, uint64(2))
		s.Halted = true
		for _, n := range s.Chain.Nodes {
			n.Forget()
		}
		s.Chain.Abandon(1)
		for _, n := range s.Chain.Nodes {
			n.Forget()
		}
		s.Idle, s.Halted = false, false
		s.Resume(0)
		s.Pay("client", order(1))
		s.Pass(3 * time.Minute)
		is(t, "state", s.State(order(1)), payment.Confirmed)
	})
}
