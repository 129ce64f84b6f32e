package simulation_test

import (
	"testing"
	"time"

	"remit/internal/payment"
	st "remit/internal/simulation"
)

// moved brings about what a reassign leaves behind: a payment that is assigned to a
// second wallet, and the handler "sleeper" about to reserve from the first, which
// refused somebody else a moment ago.
func moved(s *st.Stage) (first, second int) {
	s.On("sleeper", "Reserve", 1, st.Freeze)
	s.Post("sleeper", 0, order(0))
	s.Pass(time.Second)
	first = int(s.Payment(order(0)).Wallet[19])
	s.Pause(first, "by hand")
	s.On("mover", "Reassign", 1, st.KillAfter)
	s.Post("mover", 1, order(0))
	s.Pass(time.Second)
	s.Resume(first)
	return first, int(s.Payment(order(0)).Wallet[19])
}

func pair() st.Setup {
	setup := plain()
	setup.Wallets = 2
	return setup
}

// A handler that slept while its payment was moved to another wallet cannot
// commit it on the first, and the nonce it took there is filled.
func TestAssignedAnewWhileAHandlerSleeps(t *testing.T) {
	st.Perform(t, pair(), func(s *st.Stage) {
		first, second := moved(s)
		s.Thaw()
		s.Pass(2 * time.Minute)
		is(t, "paid by", s.Payment(order(0)).Wallet, st.Wallet(second))
		s.Pass(3 * time.Minute)
		is(t, "the nonce that was taken", s.Record(first).NextNonce, uint64(1))
	})
}

// It is moved away and back, while the nonce that the sleeper holds is filled
// with a no-op, mined and forgotten.
func TestAssignedAwayAndBackWhileAHandlerSleeps(t *testing.T) {
	st.Perform(t, pair(), func(s *st.Stage) {
		first, second := moved(s)
		s.On("sleeper", "Commit", 1, st.Freeze)
		s.Thaw()
		s.Pass(5 * time.Minute)
		is(t, "mined on the first", s.Chain.Count(st.Wallet(first), 2), uint64(1))
		s.Pause(second, "by hand")
		s.On("back", "Reassign", 1, st.KillAfter)
		s.Post("back", 1, order(0))
		s.Pass(time.Second)
		is(t, "assigned to", s.Payment(order(0)).Wallet, st.Wallet(first))
		s.Resume(second)
		s.Thaw()
		s.Pass(time.Second)
		s.Pay("client", order(0))
		s.Pass(3 * time.Minute)
		is(t, "state", s.State(order(0)), payment.Confirmed)
	})
}

// A run is about to fill a nonce whose payment went elsewhere, when the payment
// comes back and is committed there.
func TestNoopAndCommitMeet(t *testing.T) {
	st.Perform(t, pair(), func(s *st.Stage) {
		first, second := moved(s)
		s.On("sleeper", "Commit", 1, st.KillBefore)
		s.Thaw()
		s.On("run", "PutNoop", 1, st.Freeze)
		s.Pass(90 * time.Second)
		s.Pause(second, "by hand")
		s.Idle = true
		p := s.Pay("client", order(0))
		is(t, "paid by", p.Wallet, st.Wallet(first))
		is(t, "nonce", p.Nonce, uint64(0))
		s.Thaw()
		s.Resume(second)
		s.Idle = false
		s.Pass(3 * time.Minute)
		is(t, "state", s.State(order(0)), payment.Confirmed)
	})
}

// A run dies between filling a nonce and releasing its reservation, and none can
// release it, until the no-op is final. Its pending transaction must stay as long as anybody
// can still take the reservation over.
func TestNoopStaysAsLongAsItsReservation(t *testing.T) {
	st.Perform(t, pair(), func(s *st.Stage) {
		first, second := moved(s)
		s.On("sleeper", "Commit", 1, st.KillBefore)
		s.On("run", "Release", 0, st.FailBefore)
		s.Thaw()
		s.Pass(5 * time.Minute)
		is(t, "mined on the first", s.Chain.Count(st.Wallet(first), 2), uint64(1))
		s.Pause(second, "by hand")
		s.Ask("client", order(0))
		s.Resume(second)
		s.Off("Release")
		s.Pass(time.Minute)
		s.Pay("client", order(0))
		s.Pass(3 * time.Minute)
		is(t, "state", s.State(order(0)), payment.Confirmed)
	})
}

// A run that slept since before a nonce was filled fills it once more, when it
// is long mined. That is nobody's crime.
func TestNoopTwice(t *testing.T) {
	for _, effect := range []string{"PutNoop", "Fees"} {
		st.Perform(t, pair(), func(s *st.Stage) {
			moved(s)
			s.On("sleeper", "Commit", 1, st.KillBefore)
			s.On("run", effect, 1, st.Freeze)
			s.Thaw()
			s.Pass(65 * time.Second)
			s.Chain.BaseFee = unit(120) // another price, another no-op
			s.Pass(5 * time.Minute)
			s.Thaw()
			s.Pass(5 * time.Minute)
			for n := range 2 {
				is(t, "paused", s.Record(n).Paused, "")
			}
			s.Pay("client", order(0))
		})
	}
}
