package simulation_test

import (
	"errors"
	"testing"
	"time"

	"remit/internal/dispatch"
	"remit/internal/memory"
	"remit/internal/payment"
	st "remit/internal/simulation"
	"remit/internal/wallet"
)

// A cold process without its secret starts nothing.
func TestSecretStoreDownCold(t *testing.T) {
	st.Perform(t, plain(), func(s *st.Stage) {
		s.Keys.Down(true)
		is(t, "refused", errors.Is(s.Ask("client", order(0)).Err, dispatch.ErrUnavailable), true)
		is(t, "stored", s.State(order(0)), payment.State(""))
		s.Keys.Down(false)
		s.Pay("client", order(0))
	})
}

// The secret goes away while payments are under way: what is signed goes on,
// and what is reserved is finished when it is back.
func TestSecretStoreDownWarm(t *testing.T) {
	st.Perform(t, plain(), func(s *st.Stage) {
		s.Pay("signed", order(0))
		s.On("reserved", "Reserve", 1, st.KillAfter)
		s.Post("reserved", 0, order(1))
		s.Pass(time.Second)
		s.Keys.Down(true)
		s.Pass(5 * time.Minute)
		is(t, "signed", s.State(order(0)), payment.Confirmed)
		is(t, "reserved", s.State(order(1)), payment.Prepared)
		s.Keys.Down(false)
		s.Pass(3 * time.Minute)
		is(t, "reserved", s.State(order(1)), payment.Confirmed)
	})
}

// A key is being retired: its wallet gets no new payments, and finishes those
// it has, reservations included.
func TestKeyRotatedWithTransactionsInFlight(t *testing.T) {
	st.Perform(t, plain(), func(s *st.Stage) {
		s.Halted = true
		s.Pay("committed", order(0))
		s.On("reserved", "Reserve", 1, st.KillAfter)
		s.Post("reserved", 0, order(1))
		s.Pass(time.Second)
		s.Keys.Drain(st.Wallet(0))
		s.AddWallet()
		p := s.Pay("new", order(2))
		is(t, "the new wallet pays", p.Wallet, st.Wallet(1))
		s.Halted = false
		s.Pass(4 * time.Minute)
		for n := range 3 {
			is(t, "state", s.State(order(n)), payment.Confirmed)
		}
		is(t, "the old wallet paid", s.Payment(order(1)).Wallet, st.Wallet(0))
	})
}

// An operator pauses a wallet: no new reservations, but what is reserved or signed goes
// on.
func TestWalletPausedInFlight(t *testing.T) {
	st.Perform(t, plain(), func(s *st.Stage) {
		s.Halted = true
		s.Pay("committed", order(0))
		s.On("reserved", "Reserve", 1, st.KillAfter)
		s.Post("reserved", 0, order(1))
		s.Pass(time.Second)
		s.Pause(0, "by hand")
		is(t, "new", s.Ask("new", order(2)).Refused(), true)
		s.Pay("reserved again", order(1)) // its nonce is still its own
		s.Halted = false
		s.Pass(4 * time.Minute)
		is(t, "committed", s.State(order(0)), payment.Confirmed)
		is(t, "reserved", s.State(order(1)), payment.Confirmed)
		is(t, "new", s.State(order(2)), payment.State(""))
		is(t, "paused", s.Record(0).Paused, "by hand")
		s.Resume(0)
	})
}

// A pause that a person must end is not ended by a top-up, however the two come
// together.
func TestPauseByHandOutlivesATopUp(t *testing.T) {
	st.Perform(t, plain(), func(s *st.Stage) {
		s.Idle = true
		s.On("client", "Send", 0, st.FailBefore)
		s.Pay("client", order(0))
		s.Chain.Drain(st.Wallet(0))
		s.Pass(50 * time.Second)
		// A run has read the wallet as it was, and hears from the nodes after
		// it was paused.
		s.On("run", "Send node0", 1, st.FreezeDone)
		s.StartRun()
		s.Pass(time.Second)
		s.Pause(0, "by hand")
		s.Thaw()
		s.Pass(time.Second)
		is(t, "paused", s.Record(0).Paused, "by hand")
		// The other way about: it ends a pause of its own that has become
		// another's meanwhile.
		s.Idle = false
		s.Chain.Fund(st.Wallet(0), unit(0), unit(1_000_000_000_000))
		s.Pass(4 * time.Minute)
		is(t, "state", s.State(order(0)), payment.Confirmed)
		is(t, "paused", s.Record(0).Paused, "by hand")
		s.Resume(0)
	})
}

// On 31 January 2017 GitLab lost its database and went back to a copy some
// hours old. With payments that would pay everything since then again: the
// chain is ahead of the tables, so nothing is paid until a person has looked.
func TestTablesRestoredToAnHourAgo(t *testing.T) {
	for _, draining := range []bool{false, true} {
		st.Perform(t, plain(), func(s *st.Stage) {
			s.Pending = true
			s.Pay("before", order(0))
			s.Pass(time.Hour)
			image := s.Store.Image()
			s.Pass(time.Hour)
			s.Pay("lost", order(1))
			s.Pass(5 * time.Minute)
			if draining {
				s.Keys.Drain(st.Wallet(0))
				s.AddWallet()
			}
			s.Restore(image)
			s.Idle = true
			is(t, "at once", s.Ask("again", order(1)).Refused(), true)
			s.Idle = false
			s.Pass(5 * time.Minute)
			is(t, "later", s.Ask("again2", order(1)).Refused(), true)
			if s.Record(0).Paused == "" {
				t.Error("the wallet is not paused")
			}
		})
	}
}

// A process that was warm when the tables were restored learns it from the
// next run: every wallet is paused, whichever the lost payment was of.
func TestEveryWalletStopsWhenOneIsBehind(t *testing.T) {
	setup := plain()
	setup.Wallets = 3
	st.Perform(t, setup, func(s *st.Stage) {
		s.Pending = true
		for n := range 3 {
			s.Pay("before", order(n))
			s.Pass(90 * time.Second)
		}
		s.Steal(0, s.Record(0).NextNonce, 5)
		s.Pass(3 * time.Minute)
		for n := range 3 {
			if w, err := s.Store.Wallet(t.Context(), wallet.ID{ChainID: s.Chain.ID, Address: st.Wallet(n)}); err == nil && w.Paused == "" {
				t.Errorf("wallet %d is not paused", n)
			}
		}
	})
}

// A stolen key was taken out of the secret, and the thief goes on: nobody can
// fill the nonces that he uses, so what he did counts once it is final.
func TestThiefUsesAKeyThatIsGone(t *testing.T) {
	setup := plain()
	setup.Wallets = 2
	st.Perform(t, setup, func(s *st.Stage) {
		s.Pending = true
		for n := range 3 {
			s.Pay("before", order(n))
			s.Pass(90 * time.Second)
		}
		s.Keys.Remove(st.Wallet(0))
		next := s.Record(0).NextNonce
		s.Steal(0, next, 5)
		s.Pass(13 * time.Second)
		s.StartRun()
		s.Pass(time.Second)
		is(t, "while it is not final", s.Record(0).NextNonce, next)
		s.Pass(3 * time.Minute)
		is(t, "once it is", s.Record(0).NextNonce, next+1)
		s.Resume(1)
		s.Pass(3 * time.Minute)
		is(t, "the other wallet stays resumed", s.Record(1).Paused, "")
	})
}

// A key that somebody else is using is not taken into service.
func TestForeignKeyIsNotOpened(t *testing.T) {
	st.Perform(t, plain(), func(s *st.Stage) {
		s.Pending, s.Halted = true, true
		s.Steal(0, 0, 5)
		a := s.Ask("client", order(0))
		is(t, "refused", errors.Is(a.Err, wallet.ErrForeign), true)
	})
}

// Two processes meet a new wallet at once. What the slower one finds in the
// pools is the other's first payment, and no stranger's.
func TestTwoProcessesOpenAWallet(t *testing.T) {
	st.Perform(t, plain(), func(s *st.Stage) {
		s.Halted = true
		s.On("slow", "Account", 1, st.Freeze)
		slow := s.Post("slow", 1, order(0))
		s.Pass(time.Second)
		s.Pay("fast", order(1))
		s.Thaw()
		is(t, "the slower one", s.Await(slow).Err, error(nil))
		s.Halted = false
	})
}

// A clock that was wrong has stopped large services (Cloudflare, 1 January
// 2017: time went backwards). Here every second process is ten minutes off.
func TestClocksTenMinutesApart(t *testing.T) {
	for _, skews := range [][]time.Duration{
		{0, 10 * time.Minute}, {10 * time.Minute, 0}, {-10 * time.Minute, 0}, {10 * time.Minute, -10 * time.Minute},
	} {
		setup := plain()
		setup.Skews = skews
		st.Perform(t, setup, func(s *st.Stage) {
			s.On("killed", "Reserve", 1, st.KillAfter)
			s.Post("killed", 0, order(0))
			s.Pay("client", order(1))
			s.On("run", "Finish", 1, st.KillBefore) // and leaves a claim behind
			s.Pass(15 * time.Minute)
			is(t, "reserved", s.State(order(0)), payment.Confirmed)
			is(t, "committed", s.State(order(1)), payment.Confirmed)
		})
	}
}

// DynamoDB throttles and cancels transactions that meet on an item, and its
// outages end in a storm of both (us-east-1, 20 October 2025).
func TestThrottledWritesAndCancelledTransactions(t *testing.T) {
	for _, effect := range []string{"Create", "Reserve", "Commit", "Release", "Finish", "Publish", "DeletePendingTx", "Reconcile", "Wallet", "PendingTxs", "Payment"} {
		for _, how := range []st.Outcome{st.FailBefore, st.LoseAnswer, st.ApplyLate} {
			st.Perform(t, plain(), func(s *st.Stage) {
				s.On("", effect, 3, how)
				s.StartClient("client", order(0), 5, true)
				s.Pass(6 * time.Minute)
				is(t, "state", s.State(order(0)), payment.Confirmed)
			})
		}
	}
}

// One item that does not decode stops nobody else.
func TestCorruptItem(t *testing.T) {
	spoil := map[string]func(*memory.Payments, payment.Payment){
		"payment": func(store *memory.Payments, p payment.Payment) { store.Spoil(p.ID) },
		"pendingtx": func(store *memory.Payments, p payment.Payment) {
			store.SpoilPendingTx(wallet.ID{ChainID: p.Tx.ChainID, Address: p.Wallet}, p.Nonce)
		},
	}
	for name, damage := range spoil {
		t.Run(name, func(t *testing.T) {
			setup := plain()
			st.Perform(t, setup, func(s *st.Stage) {
				s.Pending = true
				s.Halted = true
				for n := range 3 {
					s.Pay("client", order(n))
				}
				damage(s.Store, s.Payment(order(1)))
				s.Halted = false
				s.Pass(4 * time.Minute)
				is(t, "before it", s.State(order(0)), payment.Confirmed)
				is(t, "after it", s.State(order(2)), payment.Confirmed)
				counted := 0
				for _, r := range s.Reports() {
					counted += r.Unreadable
				}
				if counted == 0 {
					t.Error("nobody counted it")
				}
				s.Store.Mend()
			})
		})
	}
}

// No run for an hour: the next ones catch up.
func TestCatchingUpAfterAnHour(t *testing.T) {
	setup := plain()
	setup.Wallets = 3
	st.Perform(t, setup, func(s *st.Stage) {
		s.Idle = true
		for n := range 40 {
			s.Pay("client", order(n))
			s.Pass(90 * time.Second)
		}
		s.Idle = false
		s.Pass(3 * time.Minute)
		for n := range 40 {
			is(t, "state", s.State(order(n)), payment.Confirmed)
		}
	})
}

// Handlers raise the ceiling themselves, so a busy minute needs no run.
func TestCeilingIsRaisedByHandlers(t *testing.T) {
	setup := plain()
	setup.Window = 2
	st.Perform(t, setup, func(s *st.Stage) {
		s.Idle = true
		for n := range 10 {
			s.Pay("client", order(n))
			s.Pass(13 * time.Second)
		}
		s.Halted = true
		s.Pay("client", order(10))
		s.Pay("client", order(11))
		is(t, "window full", s.Ask("client", order(12)).Refused(), true)
	})
}
