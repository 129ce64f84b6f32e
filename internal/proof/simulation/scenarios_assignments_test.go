package simulation_test

import (
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/simulation"
	"github.com/remit-payouts/remit/internal/proof/simulation/fakechain"
	"github.com/remit-payouts/remit/internal/proof/simulation/oracle"
	"github.com/remit-payouts/remit/internal/proof/simulation/scheduler"
)

// moved leaves a payment that was reassigned to a second wallet while the handler "sleeper" is about to reserve from
// the first: that one was paused for a moment, and another handler moved the payment away.
func moved(s *simulation.Scenario) (first, second int) {
	s.Begin("sleeper", 0, order(0), "Reserve", scheduler.Freeze)
	first = int(s.Payment(order(0)).Wallet[19])
	s.Pause(first, "by hand")
	s.Begin("mover", 1, order(0), "Reassign", scheduler.KillAfter)
	s.Resume(first)
	return first, int(s.Payment(order(0)).Wallet[19])
}

var pair = simulation.Setup{Wallets: 2}

// A payment is moved to another wallet and back, while the nonce that the sleeper
// holds is used up by a no-op, mined and forgotten.
func TestAssignedAwayAndBackWhileAHandlerSleeps(t *testing.T) {
	simulation.Perform(t, pair, func(s *simulation.Scenario) {
		first, second := moved(s)
		s.On("sleeper", "Commit", 1, scheduler.Freeze)
		s.Thaw()
		s.Elapse(5 * time.Minute)
		s.Is("mined on the first", s.Chain.Account(fakechain.Wallet(first), 2).Nonce, uint64(1))
		s.Pause(second, "by hand")
		s.Begin("back", 1, order(0), "Reassign", scheduler.KillAfter)
		s.Is("assigned to", s.Payment(order(0)).Wallet, fakechain.Wallet(first))
		s.Resume(second)
		s.Thaw()
		s.Elapse(time.Second)
		s.Pay("client", order(0))
		s.After(3*time.Minute, order(0), payment.Confirmed)
	})
}

// A run that slept since before a nonce was used up uses it up once more, when the
// first no-op is long mined. No thief did that, so no wallet is paused.
func TestNoopTwice(t *testing.T) {
	for _, effect := range []string{"PutNoop", "Fees"} {
		perform(t, effect, pair, func(s *simulation.Scenario) {
			moved(s)
			s.On("sleeper", "Commit", 1, scheduler.KillBefore)
			s.On("run", effect, 1, scheduler.Freeze)
			s.Thaw()
			s.Elapse(65 * time.Second)
			s.Chain.BaseFee = unit(120) // another price, another no-op
			s.Elapse(5 * time.Minute)
			s.Thaw()
			s.Elapse(5 * time.Minute)
			for n := range 2 {
				s.Is("paused", s.Record(n).Paused, "")
			}
			s.Pay("client", order(0))
		})
	}
}

// The slower of two requests under one key reserves a nonce of its own after the faster one has released. It gives the
// nonce back, or, when another payment has reserved the next one since, has it used up at once: no other payment waits.
func TestSlowerOfTwoRequests(t *testing.T) {
	for name, test := range map[string]struct {
		asleep string // the loser's effect during which the other payment is made
		next   uint64 // nonces used in the end
	}{
		"its nonce is the last":    {"Hint", 2},
		"its nonce has a follower": {"Commit", 3},
	} {
		perform(t, name, simulation.Setup{}, func(s *simulation.Scenario) {
			loser := s.Begin("loser", 1, order(0), "Reserve", scheduler.Freeze)
			s.Pay("winner", order(0))
			s.On("loser", test.asleep, 1, scheduler.Freeze)
			s.Thaw()
			s.Elapse(time.Second)
			s.Pay("other", order(1))
			began := time.Now()
			s.Thaw()
			s.Is("the loser's answer", s.Await(loser).Payment.TxHash, s.Payment(order(0)).TxHash)
			s.After(time.Until(began.Add(4*12*time.Second)), order(1), payment.Confirmed) // at the fourth block
			s.Is("nonces used", s.Record(0).NextNonce, test.next)
		})
	}
}

// A run is about to use up the slower request's nonce when that gives it back. The
// no-op would be mined at a nonce that the wallet has yet to give out.
func TestReturnWhileARunUsesUp(t *testing.T) {
	simulation.Perform(t, simulation.Setup{ReservationAge: 1}, func(s *simulation.Scenario) {
		s.Idle = true
		s.Begin("loser", 1, order(0), "Reserve", scheduler.Freeze)
		s.Pay("winner", order(0))
		s.On("loser", "Return", 1, scheduler.Freeze)
		s.Thaw()
		s.Elapse(time.Second)
		s.On("run", "PutNoop", 1, scheduler.Freeze)
		s.StartRun()
		s.Elapse(time.Second)
		s.Thaw()
		s.Elapse(time.Second)
		s.Is("the nonce that was taken", s.Record(0).NextNonce, uint64(2))
	})
}

// A request is given up while its reservation is still under way, and the wallet is full: its payment is discarded.
// The next request under the key stores the payment again and has no time left for it. Both are told that nothing was
// started, and so it stays when the reservation arrives.
func TestReservationArrivesAfterTheAnswer(t *testing.T) {
	simulation.Perform(t, simulation.Setup{Window: 1}, func(s *simulation.Scenario) {
		s.Pay("other", order(1))
		early := s.Begin("early", 0, order(0), "Reserve", scheduler.ApplyLate)
		s.Is("the early one is refused", s.Await(early).Refused(), true)
		slow := s.Begin("slow", 0, order(0), "Create", scheduler.Freeze)
		s.Elapse(25 * time.Second)
		s.Thaw()
		s.Is("the slow one is refused", s.Await(slow).Refused(), true)
		s.IsState(order(0), "")
		s.Elapse(20 * time.Minute)
		s.Is("nonces used", s.Record(0).NextNonce, uint64(2))
	})
}

// A wallet becomes a merchant's, and one of two processes has read the registry before. No coin of it pays another
// merchant, and none of a common wallet pays that merchant: the record decides.
func TestAssignedWalletOfAnOldRegistry(t *testing.T) {
	simulation.Perform(t, simulation.Setup{Wallets: 2, Own: "mer_2"}, func(s *simulation.Scenario) {
		owners := func(n int) oracle.Order {
			o := order(n)
			o.Merchant = s.Own
			return o
		}
		s.Pay("reads", order(0)) // the first process alone
		s.Elapse(time.Minute)
		s.Drain(1)
		must.OK(s.T, s.Store.Assign(t.Context(), s.Record(1), s.Own, time.Now()))
		s.Pause(0, "by hand")
		for instance := range 2 {
			s.Is("another merchant's", s.Await(s.Post("other", instance, order(1))).Refused(), true)
			s.Is("its own", s.Await(s.Post("owner", instance, owners(2+instance))).Payment.Wallet, fakechain.Wallet(1))
		}
		s.Resume(0)
		s.Pause(1, "by hand")
		for instance := range 2 {
			s.Is("its own, paused", s.Await(s.Post("owner", instance, owners(4))).Refused(), true)
			s.Is("another merchant's", s.Await(s.Post("other", instance, order(5+instance))).Payment.Wallet, fakechain.Wallet(0))
		}
		s.Resume(1)
	})
}
