package simulation_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"remit/internal/chain"
	"remit/internal/dispatch"
	"remit/internal/payment"
	st "remit/internal/simulation"
	"remit/internal/store"
)

// plain is a small deployment: one wallet, two nodes, final after two blocks.
func plain() st.Setup {
	return st.Setup{
		Wallets: 1, Nodes: 2, Instances: 2, Depth: 2, ConfirmationRule: chain.ConfirmationRule{Depth: 2}, Window: 64,
		Coins: 1_000_000, Ether: 1_000,
	}
}

// order returns the n-th payment a merchant wants.
func order(n int) st.Request {
	return st.Request{Key: fmt.Sprintf("key%d", n), To: st.Payee(n), Amount: 1000}
}

func is(t *testing.T, what string, got, want any) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// A client that got no answer asks again. It is why idempotency keys exist
// (Brandur Leach, "Designing robust and predictable APIs with idempotency",
// Stripe, 2017).
func TestRetryAfterALostAnswer(t *testing.T) {
	st.Perform(t, plain(), func(s *st.Stage) {
		first := s.Pay("first", order(0))
		s.Pass(5 * time.Minute)
		again := s.Ask("again", order(0))
		is(t, "hash", again.Payment.TxHash, first.TxHash)
		is(t, "state", again.Payment.State, payment.Confirmed)
	})
}

// Retries of a whole fleet arrive at once when a load balancer comes back.
func TestSameKeyFromFiftyClients(t *testing.T) {
	setup := plain()
	setup.Instances = 5
	st.Perform(t, setup, func(s *st.Stage) {
		var answers []<-chan st.Answer
		for i := range 50 {
			answers = append(answers, s.Post(fmt.Sprintf("client%02d", i), i, order(0)))
		}
		hashes := map[chain.Hash]int{}
		for _, a := range answers {
			if got := s.Await(a); got.Err == nil {
				hashes[got.Payment.TxHash]++
			} else {
				t.Error(got.Err)
			}
		}
		is(t, "different hashes", len(hashes), 1)
	})
}

// The same key for something else is a client's bug, and must not pay either
// the other thing or the first one again.
func TestKeyUsedForSomethingElse(t *testing.T) {
	for _, state := range []payment.State{payment.Prepared, payment.Committed} {
		st.Perform(t, plain(), func(s *st.Stage) {
			if state == payment.Prepared {
				s.On("first", "Reserve", 1, st.KillBefore)
			}
			s.Ask("first", order(0))
			other := order(0)
			other.Amount = 7
			is(t, "other content", errors.Is(s.Ask("other", other).Err, dispatch.ErrKeyReused), true)
			is(t, "state", s.State(order(0)), state)
			is(t, "stored", s.Payment(order(0)).Amount.String(), "1000")
		})
	}
}

// AWS freezes a Lambda's process between invocations and thaws it with the
// next one, minutes later: whatever it was about to do, it does then.
func TestHandlerFrozenUntilItsPaymentIsFinal(t *testing.T) {
	for _, effect := range []string{"Create", "Reserve", "Commit", "Release", "Send node0", "Estimate"} {
		for _, how := range []st.Outcome{st.Freeze, st.FreezeDone} {
			st.Perform(t, plain(), func(s *st.Stage) {
				s.On("frozen", effect, 1, how)
				s.Post("frozen", 0, order(0))
				s.Pass(10 * time.Second)
				s.Pay("client", order(0))
				s.Pass(20 * time.Minute)
				is(t, "state after 20 minutes", s.State(order(0)), payment.Confirmed)
				s.Thaw()
				s.Pass(20 * time.Minute)
			})
		}
	}
}

// The handler that committed a payment dies before it sends it. The one that lost
// the commit has signed nothing that is stored, and sends what the pending transaction has.
func TestLoserOfACommitSendsTheWinnersBytes(t *testing.T) {
	st.Perform(t, plain(), func(s *st.Stage) {
		s.Idle, s.Halted = true, true
		s.On("loser", "Commit", 1, st.Freeze)
		answer := s.Post("loser", 0, order(0))
		s.Pass(time.Second)
		s.On("winner", "Commit", 1, st.KillAfter)
		s.Post("winner", 1, order(0))
		s.Pass(time.Second)
		is(t, "in the pool before", s.Chain.Nodes[0].Pooled(st.Wallet(0)), 0)
		s.Thaw()
		s.Await(answer)
		is(t, "in the pool", s.Chain.Nodes[0].Pooled(st.Wallet(0)), 1)
		s.Idle, s.Halted = false, false
		s.Pass(2 * time.Minute)
	})
}

// EventBridge delivers at least once, and a run that is slow meets the next.
func TestTwoSettlementsOverlap(t *testing.T) {
	for _, effect := range []string{"Payment", "Finish", "Publish", "DeletePendingTx", "Receipts", "Reconcile", "Claim", "Account"} {
		for _, how := range []st.Outcome{st.Freeze, st.FreezeDone, st.KillBefore, st.KillAfter, st.ApplyLate} {
			st.Perform(t, plain(), func(s *st.Stage) {
				s.On("run", effect, 1, how)
				s.Pay("client", order(0))
				s.Pay("client2", order(1))
				s.Pass(3 * time.Minute)
				is(t, "state", s.State(order(0)), payment.Confirmed)
			})
		}
	}
}

// Each alone can be paid. Checked against a balance that a node reports, both
// would be, and the second would revert.
func TestTwoPaymentsTogetherExceedTheBalance(t *testing.T) {
	setup := plain()
	setup.Coins = 1_500
	st.Perform(t, setup, func(s *st.Stage) {
		a, b := s.Post("a", 0, order(0)), s.Post("b", 1, order(1))
		first, second := s.Await(a), s.Await(b)
		if first.Err == nil {
			first, second = second, first
		}
		is(t, "one is refused", errors.Is(first.Err, dispatch.ErrInsufficient), true)
		is(t, "the other is paid", second.Err, error(nil))
		s.Pass(3 * time.Minute)
		s.Chain.Fund(st.Wallet(0), unit(1_000), unit(0))
		s.Coins += 1_000
		s.Pass(2 * time.Minute)
		s.Pay("again", first.Request) // a refusal does not use its key up
	})
}

// Gas is reserved like coins: a wallet that cannot pay for one more refuses it
// before it is committed.
func TestOutOfGasIsARefusal(t *testing.T) {
	setup := plain()
	setup.Ether = 0
	st.Perform(t, setup, func(s *st.Stage) {
		s.Chain.Fund(st.Wallet(0), unit(0), unit(20_000_000)) // a transfer reserves 77,100 gas at 210 wei
		s.Pay("first", order(0))
		a := s.Ask("second", order(1))
		is(t, "refused", errors.Is(a.Err, dispatch.ErrUnavailable), true)
		is(t, "stored", s.State(order(1)), payment.State(""))
	})
}

// API Gateway hangs up after 29 seconds, users sooner. From the reservation on the
// work goes on without them.
func TestClientHangsUpAfterTheReservation(t *testing.T) {
	st.Perform(t, plain(), func(s *st.Stage) {
		s.Idle = true
		s.On("client", "Commit", 1, st.Freeze)
		s.Post("client", 0, order(0))
		s.Pass(2 * time.Second)
		s.HangUp("client")
		s.Pass(2 * time.Second)
		s.Thaw()
		s.Pass(10 * time.Second)
		is(t, "state without any run", s.State(order(0)), payment.Committed)
		is(t, "reservations", len(s.Record(0).Reservations), 0)
	})
}

// A reservation that its handler has no time to commit only makes work.
func TestNoReservationWithoutTime(t *testing.T) {
	st.Perform(t, plain(), func(s *st.Stage) {
		s.Idle = true
		s.On("client", "Create", 1, st.FreezeDone)
		answers := s.Post("client", 0, order(0))
		s.Pass(25 * time.Second)
		s.Thaw()
		is(t, "refused", errors.Is(s.Await(answers).Err, dispatch.ErrUnavailable), true)
		is(t, "next nonce", s.Record(0).NextNonce, uint64(0))
		s.Idle = false
		s.Pay("again", order(0))
	})
}

// Nobody can be left waiting because a daily limit, a wallet or a node says no
// to what was committed before.
func TestReplayBeforeRefusal(t *testing.T) {
	for name, stop := range map[string]func(*st.Stage){
		"no keys": func(s *st.Stage) { s.Keys.Down(true) },
		"no node": func(s *st.Stage) { s.Chain.Nodes[0].Down, s.Chain.Nodes[1].Down = true, true },
		"no coins": func(s *st.Stage) {
			s.Chain.Recipients[order(0).To] = st.Reverts // the estimate fails now
			s.Wanting()
		},
	} {
		t.Run(name, func(t *testing.T) {
			st.Perform(t, plain(), func(s *st.Stage) {
				first := s.Pay("first", order(0))
				s.Pass(2 * time.Minute)
				stop(s)
				again := s.Ask("again", order(0))
				is(t, "error", again.Err, error(nil))
				is(t, "hash", again.Payment.TxHash, first.TxHash)
				delete(s.Chain.Recipients, order(0).To)
			})
		})
	}
}

// A merchant's day is charged before the reservation, and given back for what was
// refused.
func TestDailyLimit(t *testing.T) {
	setup := plain()
	setup.Daily = unit(2_500)
	st.Perform(t, setup, func(s *st.Stage) {
		s.Pay("a", order(0))
		s.Pay("b", order(1))
		is(t, "third", errors.Is(s.Ask("c", order(2)).Err, store.ErrDailyLimit), true)
		is(t, "stored", s.State(order(2)), payment.State(""))
		s.Pass(24 * time.Hour)
		s.Pay("c again", order(2))
	})
}
