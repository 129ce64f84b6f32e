package simulation_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"remit/internal/chain"
	"remit/internal/dispatch"
	"remit/internal/payment"
	"remit/internal/simulation"
	"remit/internal/simulation/fakechain"
	"remit/internal/simulation/oracle"
	"remit/internal/simulation/scheduler"
)

// Retries of a whole fleet arrive at once when a load balancer comes back.
func TestSameKeyFromFiftyClients(t *testing.T) {
	simulation.Perform(t, simulation.Setup{Instances: 5}, func(s *simulation.Scenario) {
		var answers []<-chan oracle.Answer
		for i := range 50 {
			answers = append(answers, s.Post(fmt.Sprintf("client%02d", i), i, order(0)))
		}
		hashes := map[chain.Hash]int{}
		for _, a := range answers {
			if got := s.Await(a); got.Err == nil {
				hashes[got.Payment.TxHash]++
			} else {
				s.T.Error(got.Err)
			}
		}
		s.Is("different hashes", len(hashes), 1)
	})
}

// The same key for something else is a client's bug, and must not pay either
// the other thing or the first one again.
func TestKeyUsedForSomethingElse(t *testing.T) {
	for _, state := range []payment.State{payment.Prepared, payment.Committed} {
		perform(t, string(state), simulation.Setup{}, func(s *simulation.Scenario) {
			if state == payment.Prepared {
				s.On("first", "Reserve", 1, scheduler.KillBefore)
			}
			s.Ask("first", order(0))
			other := order(0)
			other.Amount = 7
			s.Is("other content", errors.Is(s.Ask("other", other).Err, dispatch.ErrKeyReused), true)
			s.Is("state", s.State(order(0)), state)
			s.Is("stored", s.Payment(order(0)).Amount.String(), "1000")
		})
	}
}

// A wallet has the coins for each of two payments and not for both. Checked against
// a balance that a node reports, both would be sent, and the second would revert.
func TestTwoPaymentsTogetherExceedTheBalance(t *testing.T) {
	simulation.Perform(t, simulation.Setup{Coins: 1_500}, func(s *simulation.Scenario) {
		a, b := s.Post("a", 0, order(0)), s.Post("b", 1, order(1))
		first, second := s.Await(a), s.Await(b)
		if first.Err == nil {
			first, second = second, first
		}
		s.Is("one is refused", errors.Is(first.Err, dispatch.ErrInsufficient), true)
		s.Is("the other is paid", second.Err, error(nil))
		s.Elapse(3 * time.Minute)
		s.Chain.Fund(fakechain.Wallet(0), unit(1_000), unit(0))
		s.Elapse(2 * time.Minute)
		s.Pay("again", first.Order) // a refusal does not use its key up
	})
}

// API Gateway hangs up after 29 seconds, users sooner. From the reservation on a
// handler goes on without them.
func TestClientHangsUpAfterTheReservation(t *testing.T) {
	simulation.Perform(t, simulation.Setup{}, func(s *simulation.Scenario) {
		s.Idle = true
		s.On("client", "Commit", 1, scheduler.Freeze)
		s.Post("client", 0, order(0))
		s.Elapse(2 * time.Second)
		s.HangUp("client")
		s.Elapse(2 * time.Second)
		s.Thaw()
		s.After(10*time.Second, order(0), payment.Committed)
		s.Is("reservations", len(s.Record(0).Reservations), 0)
	})
}
