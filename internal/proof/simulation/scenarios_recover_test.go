package simulation_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/recovery"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/simulation"
	"github.com/remit-payouts/remit/internal/proof/simulation/fakechain"
	"github.com/remit-payouts/remit/internal/proof/simulation/scheduler"
	"github.com/remit-payouts/remit/internal/sandbox/memory"
)

// In the image a payment holds a nonce of one wallet. It was moved since, and another
// wallet has made it. Nobody commits it at the nonce that it held.
func TestReservationFromBeforeTheLoss(t *testing.T) {
	for _, by := range []string{"a run", "a request", "a run before anybody has noticed"} {
		perform(t, by, simulation.Setup{Wallets: 2}, func(s *simulation.Scenario) {
			s.Idle = true
			s.Pay("opens both", order(9))
			s.Elapse(time.Minute)
			from := 0
			s.On("a", "Reserve", 1, scheduler.Freeze)
			s.On("a", "Commit", 1, scheduler.Freeze)
			s.On("b", "Reassign", 1, scheduler.Freeze)
			s.Post("a", 0, order(0))
			s.Elapse(time.Second)
			if s.Payment(order(0)).Wallet != s.Record(0).Address {
				from = 1
			}
			s.Pause(from, "moved away from")
			s.Post("b", 0, order(0))
			s.Elapse(time.Second)
			s.Resume(from)
			s.Thaw()
			s.Until(func() bool { return len(s.Record(from).Reservations) > 0 })
			image := s.Store.Image()
			s.Is("the image has it reserved", len(s.Record(from).Reservations), 1)
			s.Pay("c", order(0)) // it finds b's frozen write or makes the payment itself
			s.Thaw()
			s.Elapse(time.Minute)
			s.Idle = false
			s.Elapse(4 * time.Minute)
			if by == "a run before anybody has noticed" {
				s.Forget(image)
			} else {
				s.Lose(image)
			}
			s.Elapse(4 * time.Minute) // a run looks at the reservation, and raises next_nonce to the chain's count
			if by == "a request" {
				s.Ask("too early", order(0))
			}
			s.IsState(order(0), payment.Prepared)
			s.Is("recovered", s.Recover(), true)
			s.Pay("again", order(0))
		})
	}
}

// The tables are lost again with a recovery that had begun, and a re-organisation has taken counts back: the no-ops of
// the first reach further than those of the second. When a stranger sends them later, they move nothing, and no wallet
// stops. A payment whose nonce one of them uses has failed.
func TestNoopsOfALostRecovery(t *testing.T) {
	for _, before := range []string{"before a payment", "instead of a payment"} {
		perform(t, before, simulation.Setup{Window: 8}, func(s *simulation.Scenario) {
			s.Idle = true
			for n := range 3 {
				s.Pay("mined", order(n))
			}
			s.Elapse(15 * time.Second)
			s.Lose(memory.NewPayments())
			s.StartRecovery()
			s.Until(func() bool { return s.Record(0).NextNonce > 0 })
			reached := s.Record(0).NextNonce
			s.Chain.Abandon(2)
			s.Chain.Each((*fakechain.Node).Forget)
			s.Lose(memory.NewPayments())
			s.Is("recovered", s.Recover(), true)
			s.Is("reaches less far", s.Record(0).NextNonce < reached, true)
			if before == "instead of a payment" {
				s.On("unsent", "Send", 0, scheduler.FailBefore)
				s.Pay("unsent", order(4))
			}
			s.Chain.Replay()
			s.Elapse(time.Minute)
			s.Idle = false
			s.Elapse(3 * time.Minute)
			s.Is("next nonce", s.Record(0).NextNonce, reached)
			s.Is("paused", s.Record(0).Paused, "")
			if before == "instead of a payment" {
				s.IsState(order(4), payment.Failed)
			}
			s.Pay("again", order(0))
		})
	}
}

// The nodes' pools hold a transaction that the tables have lost and that no block takes: the market has gone up since,
// or the nodes quoted nonsense, as in seed 8040472. Recovery's transaction at its nonce has the same tip, and a cap
// that FeeLimit leaves no room to raise. The pools refuse it until its tip is higher.
func TestLostTransactionBelowTheMarket(t *testing.T) {
	perform(t, "a no-op", simulation.Setup{FeeLimit: unit(1_000)}, func(s *simulation.Scenario) {
		quote := func(kind string) {
			s.Chain.Each(func(on *fakechain.Node) { on.Quotes = fakechain.Nonsenses[kind] })
		}
		s.Idle = true
		s.On("late", "Open", 1, scheduler.Freeze)
		s.On("late", "Commit", 1, scheduler.Freeze)
		s.Post("late", 0, order(0))
		s.Elapse(time.Second)
		s.Pay("paid", order(0))
		quote("free")
		s.Thaw()
		s.Elapse(time.Second)
		s.Pay("next", order(1))
		s.Thaw()
		s.Elapse(time.Minute)
		quote("dear")
		s.Lose(memory.NewPayments())
		s.StartRecovery()
		s.Elapse(time.Minute)
		quote("")
		s.Elapse(time.Hour)
		s.Is("recovered", s.Recovered(), true)
		s.Idle = false
	})
	for _, lost := range []string{"a payment", "a bump"} {
		perform(t, lost, simulation.Setup{FeeLimit: unit(1_000)}, func(s *simulation.Scenario) {
			s.Chain.BaseFee, s.Halted = unit(0), true
			image := memory.NewPayments()
			s.Pay("cheap", order(0))
			if lost == "a bump" {
				image = s.Store.Image()
				s.Chain.BaseFee = unit(20)
				s.Elapse(4 * time.Minute)
				s.Is("attempts", len(s.Payment(order(0)).Attempts), 2)
			}
			s.Chain.BaseFee, s.Halted = unit(800), false
			s.Lose(image)
			s.Is("recovered", s.Recover(), true)
			s.Elapse(time.Minute)
			s.Is("paid before", s.Pay("again", order(0)).State == payment.Confirmed, lost == "a bump")
		})
	}
}

// Operators have not noticed that the tables are empty, or from before the first use of one wallet. A wallet that has
// paid and has no record pays nobody, nor does another that has one or none.
func TestEmptiedTables(t *testing.T) {
	for name, some := range map[string]bool{"no wallet is known": false, "one wallet has no record": true} {
		perform(t, name, simulation.Setup{Wallets: 3}, func(s *simulation.Scenario) {
			s.Pay("before", order(0))
			s.Elapse(4 * time.Minute)
			image := memory.NewPayments()
			for n := 0; some && n < 3; n++ {
				w := s.Record(n)
				r := wallet.Registration{ID: w.ID, Token: s.Chain.Token, State: wallet.Active, Key: wallet.InSecret}
				must.OK(s.T, image.Register(s.T.Context(), r))
				if w.NextNonce == 0 {
					must.OK(s.T, image.Open(s.T.Context(), w, r.Token))
				}
			}
			s.Forget(image)
			for range 3 {
				s.Is("refused", s.Ask("again", order(0)).Refused(), true)
				s.Elapse(2 * time.Minute)
			}
			s.Is("recovered", s.Recover(), true)
			s.Is("paid once", s.Pay("again", order(0)).State, payment.Confirmed)
		})
	}
}

// missing is a node that has no transaction, though it has logs of some.
type missing struct{ chain.Node }

func (missing) Transactions(context.Context, []chain.Hash) ([]chain.MinedTx, error) { return nil, nil }

// A recovery that lacks an answer ends, and the next one does its work. Unless the
// tables have no such rail, the wallets are paused.
func TestRecoveryWithoutAnAnswer(t *testing.T) {
	for name, change := range map[string]func(*simulation.Scenario, *recovery.Recovery){
		"nodes without transactions": func(_ *simulation.Scenario, r *recovery.Recovery) {
			simulation.Through(func(n chain.Node) chain.Node { return missing{n} })(r)
		},
		"no nodes":        func(_ *simulation.Scenario, r *recovery.Recovery) { r.Nodes = nowhere{} },
		"no settings":     func(s *simulation.Scenario, _ *recovery.Recovery) { s.Damage(settings.ErrDamaged) },
		"an unknown rail": func(_ *simulation.Scenario, r *recovery.Recovery) { r.Token.Contract = token.Address{1} },
		"no secrets":      func(s *simulation.Scenario, _ *recovery.Recovery) { s.Keys.Down(true) },
	} {
		perform(t, name, simulation.Setup{}, func(s *simulation.Scenario) {
			s.Pay("known", order(0))
			s.Elapse(4 * time.Minute)
			image := s.Store.Image()
			s.Pay("lost", order(1))
			s.Elapse(4 * time.Minute)
			s.Idle = true
			s.Forget(image)
			s.StartRecovery(func(r *recovery.Recovery) { change(s, r) })
			s.Elapse(10 * time.Minute)
			_, err := s.LastRecovery()
			s.Is("ended", err != nil, true)
			s.Is("paused", s.Record(0).Suspect(), name != "an unknown rail")
			s.Is("an unknown rail", errors.Is(err, settings.ErrMissing), name == "an unknown rail")
			s.Keys.Down(false)
			s.Set(unit(0))
			s.Is("recovered", s.Recover(), true)
			s.IsState(order(1), payment.Confirmed)
			s.Idle = false
		})
	}
}

type nowhere struct{}

func (nowhere) Nodes(context.Context) (chain.Nodes, error) { return nil, errors.New("broken") }

// The key of a wallet is gone. Its payments are put back if an operator names it and nothing of it can be under way;
// else nothing is recovered until the key is back.
func TestRecoveryWithoutAKey(t *testing.T) {
	for name, rest := range map[string]bool{"emptied": true, "at rest": true, "not named": false, "in a pool": false,
		"reserved": false, "unsent": false} {
		perform(t, name, simulation.Setup{}, func(s *simulation.Scenario) {
			s.Pay("known", order(0))
			s.Elapse(4 * time.Minute)
			s.Idle = true
			switch name {
			case "reserved":
				s.Begin("killed", 0, order(1), "Reserve", scheduler.KillAfter)
			case "unsent":
				s.On("unsent", "Send", 0, scheduler.FailBefore)
				s.Pay("unsent", order(1))
			}
			image := s.Store.Image()
			if name == "emptied" {
				image = memory.NewPayments()
			}
			if name == "reserved" {
				s.Pay("lost", order(1))
				s.Idle = false
				s.Elapse(4 * time.Minute)
				s.Idle = true
			}
			if s.Halted = name == "in a pool"; s.Halted {
				s.Pay("lost", order(1))
			}
			s.Lose(image)
			keyless := func(r *recovery.Recovery) {
				r.Keys, r.Keyed = &fakechain.Keys{}, nil
				if name != "not named" {
					r.Wallets = []token.Address{fakechain.Wallet(0)}
				}
			}
			s.Recover(keyless, func(r *recovery.Recovery) { r.DryRun = true })
			s.Is("changed by a dry run", s.Record(0).NoopsBelow, uint64(0))
			s.StartRecovery(keyless)
			s.Elapse(10 * time.Minute)
			report, err := s.LastRecovery()
			s.Is("refused", errors.Is(err, wallet.ErrNoKey), !rest)
			s.Is("no-ops", report.Noops, 0)
			s.Is("recovered", s.Recovered(), rest)
			if rest {
				s.IsState(order(0), payment.Confirmed)
			}
		})
	}
}

// A dry run changes nothing, signs nothing and counts the acts of the later run: here a lost payment, a thief's
// transfer, and a transfer that reverted. Tables with a committed and mined payment know it before it is settled.
func TestDryRun(t *testing.T) {
	for name, want := range map[string]recovery.Report{
		"emptied":     {Noops: 32, Stored: 3, Sum: unit(3000)},
		"rolled back": {Noops: 32, Stored: 1, Known: 2, Sum: unit(1000)},
	} {
		perform(t, name, simulation.Setup{Wallets: 2}, func(s *simulation.Scenario) {
			s.Pay("known", order(0))
			s.Elapse(4 * time.Minute)
			s.Idle = true
			s.Pay("committed", order(1))
			image := s.Store.Image()
			s.Halted = true
			s.Pay("lost", order(2))
			s.Pay("lost", order(3))
			s.Chain.Recipients[fakechain.Payee(3)] = fakechain.Reverts
			s.Halted = false
			s.Elapse(time.Minute)
			s.Steal(1, s.Chain.MostMined(fakechain.Wallet(1)), 5)
			s.Elapse(4 * time.Minute)
			if name == "emptied" {
				image = memory.NewPayments()
			}
			s.Forget(image)
			s.Fate = func(e *scheduler.Effect) scheduler.Outcome {
				if e.Actor.Name == "recover1" && (slices.Contains(writes, e.Call.Op) || e.Call.Op == "Sign") {
					s.T.Errorf("a dry run made %v", e.Call)
				}
				return scheduler.Apply
			}
			s.Recover(func(r *recovery.Recovery) { r.DryRun = true })
			dry, err := s.LastRecovery()
			s.Is("failed", err, nil)
			s.Is("recovered", s.Recover(), true)
			done, _ := s.LastRecovery()
			s.Is("transfers of thieves", len(done.Foreign), 1)
			want.Foreign = done.Foreign
			s.Is("done", fmt.Sprintf("%+v", done), fmt.Sprintf("%+v", want))
			s.Is("counted", fmt.Sprintf("%+v", dry), fmt.Sprintf("%+v", want))
			s.Idle = false
		})
	}
}

// The tables know a payment as failed that the chain has made. The recovery reports it, and changes nothing of it.
func TestTablesThatDiffer(t *testing.T) {
	simulation.Perform(t, simulation.Setup{}, func(s *simulation.Scenario) {
		made := s.Pay("lost", order(0))
		image := s.Store.Image()
		s.Elapse(4 * time.Minute)
		s.Idle = true
		wrong, ctx := memory.NewPayments(), s.T.Context()
		rules, _ := s.Store.Rules(ctx)
		first := rules.Rails[0].Settings
		first.Version = 0
		s.Is("set", wrong.SetSettings(ctx, first), nil)
		p := payment.New(made.ID, order(0).Request(), made.Token, made.Network, time.Now()).AssignedTo(made.Wallet, made.Tx)
		p, _, err := wrong.Create(ctx, p)
		s.Is("prepared", err, nil)
		p, err = p.Commit(chain.Signed{Hash: chain.Hash{1}, Raw: []byte{1}}, time.Now())
		s.Is("committed", errors.Join(err, wrong.Commit(ctx, p)), nil)
		p, err = p.Fail(payment.NonceConsumed, chain.Receipt{}, time.Now())
		s.Is("failed", errors.Join(err, wrong.Finish(ctx, p), wrong.DeletePendingTx(ctx, walletOf(made), 0)), nil)
		s.Lose(wrong)
		s.Recover(func(*recovery.Recovery) {})
		report, err := s.LastRecovery()
		s.Is("ended", err, nil)
		s.Is("differ", fmt.Sprint(report.Differ), fmt.Sprint([]payment.ID{made.ID}))
		s.Is("known", report.Known, 0)
		s.IsState(order(0), payment.Failed)
		s.Lose(image)
		s.Is("recovered", s.Recover(), true)
		s.Idle = false
	})
}

func walletOf(p payment.Payment) wallet.ID {
	return wallet.ID{ChainID: p.Tx.ChainID, Address: p.Wallet}
}

// Tables restored to a moment ago contain a run's note that it has just compared every wallet. No process believes
// that note in another table, nor, once it is minutes old, in a table that replaced the first.
func TestTablesRestoredToAMomentAgo(t *testing.T) {
	for _, test := range []struct {
		since time.Duration
		same  bool // it has the name of the first table
	}{{13 * time.Second, false}, {time.Minute, false}, {5 * time.Minute, false}, {90 * time.Second, true}, {5 * time.Minute, true}} {
		perform(t, fmt.Sprintf("%v ago, under the same name %t", test.since, test.same), simulation.Setup{Wallets: 2},
			func(s *simulation.Scenario) {
				s.Pay("before", order(0))
				s.Elapse(time.Hour)
				image := s.Store.Image()
				compared, err := s.Store.Compared(s.T.Context(), s.Chain.Coin())
				s.Is("compared lately", err == nil && time.Since(compared.At) <= time.Minute+time.Second, true)
				s.Pay("lost", order(1))
				s.Elapse(test.since) // a block at least
				s.Forget(image)
				if compared.Revision = 0; test.same {
					s.Is("stored", s.Store.SetCompared(s.T.Context(), s.Chain.Coin(), compared), nil)
				}
				s.Idle = true
				s.Is("at once", s.Ask("again", order(1)).Refused(), true)
				s.Idle = false
				s.Elapse(5 * time.Minute)
				s.Is("later", s.Ask("again2", order(1)).Refused(), true)
				for n := range 2 {
					s.Is("paused", s.Record(n).Paused != "", true)
				}
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
			s.Is("the other is paused", s.Record(0).Suspect(), true)
		})
	}
}

// TestATornOpening: a copy has a wallet's record and not that its registration was opened. While the chain is ahead of
// another wallet, that one pays nothing either: a key may have paid; and once it pays again, its payments settle.
func TestATornOpening(t *testing.T) {
	perform(t, "torn", simulation.Setup{Wallets: 2}, func(s *simulation.Scenario) {
		s.Pay("opens both", order(9))
		s.Elapse(4 * time.Minute)
		image := s.Store.Image()
		lost := s.Pay("lost", order(0))
		s.Elapse(4 * time.Minute)
		for n := range 2 {
			if a := fakechain.Wallet(n); a != lost.Wallet {
				image.TearOpen(wallet.ID{ChainID: s.Chain.ID, Address: a})
			}
		}
		s.Forget(image)
		s.Elapse(4 * time.Minute)
		s.Is("answered while the chain is ahead", s.Ask("again", order(0)).Err != nil, true)
	})
}
