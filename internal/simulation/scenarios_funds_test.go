package simulation_test

import (
	"errors"
	"testing"
	"time"

	"remit/internal/dispatch"
	st "remit/internal/simulation"
	"remit/internal/wallet"
)

// tight is enough for one order, not for two.
func tight() st.Setup {
	setup := plain()
	setup.Coins = 1_500
	return setup
}

// late has a second order simulated and stored while there is still enough for
// it, and about to reservation.
func late(s *st.Stage) <-chan st.Answer {
	s.On("late", "Reserve", 1, st.Freeze)
	answers := s.Post("late", 1, order(1))
	s.Pass(time.Second)
	return answers
}

func refusedFor(t *testing.T, s *st.Stage, answers <-chan st.Answer) {
	t.Helper()
	s.Thaw()
	if a := s.Await(answers); !a.Refused() && !errors.Is(a.Err, dispatch.ErrInProgress) {
		t.Errorf("a second order of what is there once: %v", a.Err)
	}
	s.Pass(time.Minute)
}

// A node whose head moved while it was asked gives the count of one block and
// the balance of another.
func TestBalanceOfAnotherBlock(t *testing.T) {
	st.Perform(t, tight(), func(s *st.Stage) {
		s.Idle = true
		answers := late(s)
		s.Pay("client", order(0))
		s.Pass(13 * time.Second)
		for _, n := range s.Chain.Nodes {
			n.Unsteady = true
		}
		s.StartRun()
		s.Pass(2 * time.Second)
		refusedFor(t, s, answers)
	})
}

// A handler reserves while a run sums up what is tied up. The sum lacks that
// reservation, and is not stored.
func TestReservationWhileARunReconciles(t *testing.T) {
	st.Perform(t, tight(), func(s *st.Stage) {
		s.Idle, s.Halted = true, true
		is(t, "too much", s.Ask("client", st.Request{Key: "much", To: st.Payee(9), Amount: 2000}).Refused(), true) // opens the wallet
		s.Coins += 100                                                                                             // so that there is something to store
		s.Chain.Fund(st.Wallet(0), unit(100), unit(0))
		s.On("run", "Reconcile", 1, st.Freeze)
		s.StartRun()
		s.Pass(2 * time.Second)
		s.Pay("client", order(0))
		s.Thaw()
		s.Pass(time.Second)
		is(t, "a second order of what is there once", s.Ask("client", order(1)).Refused(), true)
	})
}

// All nodes fall back to where a settled payment is not mined yet: what it took
// is there again, and its pending transaction is gone.
func TestAllNodesFallBack(t *testing.T) {
	st.Perform(t, tight(), func(s *st.Stage) {
		answers := late(s)
		s.Pay("client", order(0))
		s.Pass(2 * time.Minute)
		for _, n := range s.Chain.Nodes {
			n.Lag = 20
		}
		s.Pass(90 * time.Second)
		for _, n := range s.Chain.Nodes {
			n.Lag = 0
		}
		refusedFor(t, s, answers)
	})
}

// What is reserved and not signed yet is spoken for.
func TestReservationsAreSpokenFor(t *testing.T) {
	st.Perform(t, tight(), func(s *st.Stage) {
		s.Idle = true
		answers := late(s)
		s.On("dead", "Reserve", 1, st.KillAfter)
		s.Post("dead", 0, order(0))
		s.Pass(time.Second)
		s.StartRun()
		s.Pass(5 * time.Second)
		refusedFor(t, s, answers)
	})
}

// A raise of the ceiling that was under way arrives after a higher one.
func TestCeilingOnlyRises(t *testing.T) {
	setup := plain()
	setup.Window = 2
	st.Perform(t, setup, func(s *st.Stage) {
		s.On("run", "RaiseCeiling", 1, st.Freeze)
		for n := range 4 {
			s.Pay("client", order(n))
			s.Pass(time.Minute)
		}
		s.Thaw()
		s.Pass(time.Second)
		is(t, "ceiling", s.Record(0).Ceiling, uint64(6))
	})
}

// A key that has a history begins where the chain is, not where a node is that
// lags.
func TestFirstUseOfAUsedKey(t *testing.T) {
	for lagging := range 2 {
		st.Perform(t, plain(), func(s *st.Stage) {
			s.Pending = true // what the key paid before is none of ours
			s.Steal(0, 0, 5)
			s.Steal(0, 1, 5)
			s.Pass(time.Minute)
			s.Chain.Nodes[lagging].Lag = 10
			s.Pass(13 * time.Second)
			is(t, "while one node lags", errors.Is(s.Ask("client", order(0)).Err, wallet.ErrForeign), true)
			s.Chain.Nodes[lagging].Heal()
			is(t, "nonce", s.Pay("client", order(0)).Nonce, uint64(2))
		})
	}
}
