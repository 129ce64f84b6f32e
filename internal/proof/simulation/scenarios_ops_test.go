package simulation_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/dispatch"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/simulation"
	"github.com/remit-payouts/remit/internal/proof/simulation/fakechain"
	"github.com/remit-payouts/remit/internal/proof/simulation/oracle"
	"github.com/remit-payouts/remit/internal/proof/simulation/scheduler"
	"github.com/remit-payouts/remit/internal/sandbox/memory"
)

// A merchant floods: its payments use their merchant cap and no more, so that
// another merchant pays. A replay is answered all the same, and a crash of a handler
// or of a run that recounts holds the merchant up for no more than a round.
func TestAMerchantFloods(t *testing.T) {
	simulation.Perform(t, simulation.Setup{Window: 4, MerchantCap: 2}, func(s *simulation.Scenario) {
		s.Halted = true
		s.Pay("first", order(0))
		s.Begin("second", 0, order(1), "Reserve", scheduler.KillAfter)
		for range 2 { // asked of the wallet, then remembered by the process
			s.Is("a third", errors.Is(s.Ask("client", order(2)).Err, dispatch.ErrTooMany), true)
		}
		s.Is("stored", s.State(order(2)), payment.State(""))
		s.Pay("a replay", order(0))
		s.Pay("the second again", order(1))
		s.Is("another merchant", s.Record(0).Refusal(wallet.Need{Merchant: "mer_2", MerchantCap: 2}), nil)
		s.Halted = false
		s.On("run", "Reconcile", 1, scheduler.LoseAnswer)
		s.Elapse(5 * time.Minute)
		s.Pay("later", order(2))
		s.Pay("later too", order(4))
	})
}

// A recipient is put on a list: the chain's, or the operator's own. It gets no new payment, and no
// prepared payment that holds no nonce; a committed payment is answered and made. A list that
// cannot be read lets nobody through, nor does an amount limit that was lowered.
func TestRecipientOnAList(t *testing.T) {
	for _, deny := range []bool{false, true} {
		perform(t, fmt.Sprintf("the operator's %t", deny), simulation.Setup{Nodes: 1}, func(s *simulation.Scenario) {
			s.Halted = true
			s.Pay("committed", order(0))
			s.Begin("prepared", 0, order(1), "Reserve", scheduler.KillBefore)
			s.Begin("reserved", 0, order(2), "Reserve", scheduler.KillAfter)
			s.Begin("prepared", 0, order(5), "Reserve", scheduler.KillBefore)
			for n := range 4 {
				s.Bar(fakechain.Payee(n), deny)
			}
			s.Elapse(40 * time.Second) // the deny list is read again, and no handler of before lives
			list := map[bool]string{true: "Rules", false: "Estimate node0"}[deny]
			s.On("again0", list, 0, scheduler.FailBefore)
			for n, want := range map[int]error{1: dispatch.ErrInProgress, 5: dispatch.ErrInProgress, 2: nil} {
				s.Is("again, while the list is silent", errors.Is(s.Ask("again0", order(n)).Err, want), true)
			}
			s.Key.Maximum = unit(999)
			s.Is("above the maximum", errors.Is(s.Ask("again", order(5)).Err, dispatch.ErrAmountAbove), true)
			s.Key.Maximum = unit(0)
			s.Is("prepared", errors.Is(s.Ask("again", order(1)).Err, dispatch.ErrRecipient), true)
			s.Is("new", errors.Is(s.Ask("new", order(3)).Err, dispatch.ErrRecipient), true)
			s.Pay("a replay", order(0))
			s.Pay("reserved again", order(2))
			s.Elapse(40 * time.Second)
			s.On("client", list, 0, scheduler.FailBefore)
			s.Is("no answer", errors.Is(s.Ask("client", order(4)).Err, dispatch.ErrUnavailable), true)
			s.Pay("another recipient", order(4))
			s.Halted = false
			s.Elapse(5 * time.Minute)
			for n, want := range []payment.State{payment.Confirmed, "", payment.Confirmed, "", payment.Confirmed} {
				s.Is("in the end", s.State(order(n)), want)
			}
		})
	}
}

// On 31 January 2017 GitLab lost its database and went back to a copy some hours old. Tables like that would pay
// every payment since then again: the chain is ahead of them, so no payment is made until an operator has looked.
func TestTablesRestoredToAnHourAgo(t *testing.T) {
	for _, draining := range []bool{false, true} {
		perform(t, fmt.Sprintf("draining %t", draining), simulation.Setup{}, func(s *simulation.Scenario) {
			s.Pending = true
			s.Pay("before", order(0))
			s.Elapse(time.Hour)
			image := s.Store.Image()
			s.Elapse(time.Hour)
			s.Pay("lost", order(1))
			s.Elapse(5 * time.Minute)
			s.Restore(image)
			if draining {
				s.Drain(0)
				s.AddWallet()
			}
			s.Idle = true
			s.Is("at once", s.Ask("again", order(1)).Refused(), true)
			s.Idle = false
			s.Elapse(5 * time.Minute)
			s.Is("later", s.Ask("again2", order(1)).Refused(), true)
			s.Is("wallet 0 is paused", s.Record(0).Paused != "", true)
		})
	}
}

// Tables restored to a moment ago contain a run's note that it has just compared every wallet. No process believes
// that note in another table, nor, once it is minutes old, in a table that replaced the first.
func TestTablesRestoredToAMomentAgo(t *testing.T) {
	for _, test := range []struct {
		since time.Duration
		same  bool // it has the name of the first table
	}{{10 * time.Second, false}, {time.Minute, false}, {5 * time.Minute, false}, {90 * time.Second, true}, {5 * time.Minute, true}} {
		perform(t, fmt.Sprintf("%v ago, under the same name %t", test.since, test.same), simulation.Setup{Wallets: 2},
			func(s *simulation.Scenario) {
				s.Pending = true
				s.Pay("before", order(0))
				s.Elapse(time.Hour)
				mined := func() uint64 { return s.Chain.MostMined(fakechain.Wallet(0)) + s.Chain.MostMined(fakechain.Wallet(1)) }
				image, before := s.Store.Image(), mined()
				compared, err := image.Compared(s.T.Context(), s.Chain.Coin())
				if age := time.Since(compared.At); err != nil || age > time.Minute+time.Second {
					s.T.Errorf("the last run has compared the wallets %v ago, %v", age, err)
				}
				s.Pay("lost", order(1))
				s.Elapse(test.since)
				for n := 0; mined() == before && n < 12; n++ { // a block later at most
					s.Elapse(time.Second)
				}
				s.Restore(image)
				if test.same {
					compared.Revision = 0
					if err := s.Store.SetCompared(s.T.Context(), s.Chain.Coin(), compared); err != nil {
						s.T.Error(err)
					}
				}
				s.Idle = true
				s.Is("at once", s.Ask("again", order(1)).Refused(), true)
				s.Idle = false
				s.Elapse(5 * time.Minute)
				s.Is("later", s.Ask("again2", order(1)).Refused(), true)
				for n := range 2 {
					if s.Record(n).Paused == "" {
						s.T.Errorf("wallet %d is not paused", n)
					}
				}
			})
	}
}

// A damaged item stops only its own payment.
func TestCorruptItem(t *testing.T) {
	spoil := map[string]func(*memory.Payments, payment.Payment){
		"payment": func(store *memory.Payments, p payment.Payment) { store.Spoil(p.ID) },
		"pendingtx": func(store *memory.Payments, p payment.Payment) {
			store.SpoilPendingTx(wallet.ID{ChainID: p.Tx.ChainID, Address: p.Wallet}, p.Nonce)
		},
	}
	for name, damage := range spoil {
		perform(t, name, simulation.Setup{}, func(s *simulation.Scenario) {
			s.Pending = true
			s.Halted = true
			payFirst(s, "client", 3)
			damage(s.Store, s.Payment(order(1)))
			s.Halted = false
			s.After(4*time.Minute, order(0), payment.Confirmed)
			s.Is("after it", s.State(order(2)), payment.Confirmed)
			counted := 0
			for _, r := range s.Reports() {
				counted += r.Unreadable
			}
			if counted == 0 {
				s.T.Error("no run counted it")
			}
			s.Store.Mend()
		})
	}
}

// A wallet's record is damaged. New processes pay from the other wallet, payments in flight on the
// damaged wallet settle, a run reconciles a record or counts a registration, and a thief who uses
// the damaged wallet's key still stops every wallet.
func TestDamagedWallet(t *testing.T) {
	spoil := map[string]func(*memory.Payments, wallet.ID){
		"record": (*memory.Payments).SpoilWallet, "registration": (*memory.Payments).SpoilRegistration, "registration, never opened": nil,
	}
	for name, damage := range spoil {
		perform(t, name, simulation.Setup{Wallets: 2}, func(s *simulation.Scenario) {
			s.Pending = true
			id := wallet.ID{ChainID: s.Chain.ID, Address: fakechain.Wallet(1)}
			if damage == nil {
				s.Store.SpoilRegistration(id)
			}
			for n := range 4 { // from both wallets, if both are open
				s.Pay("before", order(n))
			}
			s.Idle = true
			if damage != nil {
				damage(s.Store, id)
			}
			for i := range 2 {
				s.Restart(i)
			}
			for n := range 4 {
				s.Is("paid by the other", s.Pay("after", order(4+n)).Wallet, fakechain.Wallet(0))
			}
			s.Idle = false
			s.Elapse(4 * time.Minute)
			counted := 0
			areConfirmed(s, 8)
			for _, r := range s.Reports() {
				counted += r.Unreadable
			}
			s.Is("counted", counted > 0, name != "record")
			if damage != nil {
				s.Is("damaged", s.Record(1).Damaged, "")
			}
			s.Steal(1, s.Chain.Nodes[0].Mined(id.Address), 5)
			s.Elapse(15 * time.Second)
			s.Restart(0)
			s.Is("refused by a new process", s.Ask("ahead", order(9)).Refused(), true)
			s.Elapse(2 * time.Minute)
			s.Is("the other is paused", s.Record(0).Suspect(), damage != nil)
		})
	}
}

// NonceWindow is lowered while its old value is in flight, and a handler that obeys the old
// one raises the ceiling after a round has lowered it. The next round lowers it once more,
// and no payment is taken on until fewer than the window are in flight.
func TestWindowIsLowered(t *testing.T) {
	simulation.Perform(t, simulation.Setup{Window: 4}, func(s *simulation.Scenario) {
		s.Idle = true
		payFirst(s, "client", 4)
		s.Elapse(13 * time.Second) // a block
		s.Halted = true
		late := s.Begin("late", 1, order(4), "RaiseCeiling", scheduler.Freeze)
		s.Pay("client", order(5))
		s.Narrow = 1
		s.Set(token.Amount{})
		s.StartRun()
		s.Elapse(10 * time.Second)
		s.Is("ceiling", s.Record(0).Ceiling, s.Record(0).NextNonce)
		s.Thaw()
		s.Is("the late one is paid", s.Await(late).Err, nil)
		s.Elapse(30 * time.Second)
		s.Is("ceiling, lowered again", s.Record(0).Ceiling, uint64(6))
		s.Is("one more", s.Ask("client", order(6)).Refused(), true)
		s.Idle, s.Halted = false, false
		s.Elapse(3 * time.Minute)
		s.Pay("client", order(6))
	})
}

// An operator retires a wallet, and its key is stolen afterwards: the thief sends a thousand transactions from it. No
// payment of another wallet waits, no wallet is paused, and no run counts the thief's transactions.
func TestThiefOfARetiredKey(t *testing.T) {
	simulation.Perform(t, simulation.Setup{Wallets: 2, Coins: 1e9}, func(s *simulation.Scenario) {
		for n := range 4 { // from both wallets
			s.Pay("before", order(n))
		}
		s.Elapse(4 * time.Minute)
		s.Drain(1)
		s.Elapse(5 * time.Minute)
		s.Is("retired", s.Retire(1), error(nil))
		first := s.Record(1).NextNonce
		for n := range 20 {
			for range 50 {
				s.Steal(1, first, 5)
				first++
			}
			if n == 10 {
				s.Restart(0)
				s.Restart(1)
			}
			began := s.Pay("client", order(4+n)).CreatedAt
			s.Until(func() bool { return s.State(order(4+n)) == payment.Confirmed })
			if took := time.Since(began); took > 100*time.Second {
				s.T.Errorf("payment %d took %s after %d transactions of the thief", n, took, 50*(n+1))
			}
		}
		for _, r := range s.Reports() {
			if r.Suspect+r.Paused > 0 {
				s.T.Errorf("a run reports %+v", r)
			}
		}
		s.Is("a payment to it", errors.Is(s.Ask("client", oracle.Order{Key: "own", To: fakechain.Wallet(1), Amount: 1}).Err,
			dispatch.ErrOwnWallet), true)
	})
}
