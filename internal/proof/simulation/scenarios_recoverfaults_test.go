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
	"github.com/remit-payouts/remit/internal/proof/simulation"
	"github.com/remit-payouts/remit/internal/proof/simulation/fakechain"
	"github.com/remit-payouts/remit/internal/proof/simulation/scheduler"
	"github.com/remit-payouts/remit/internal/sandbox/memory"
)

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

// nowhere knows no nodes.
type nowhere struct{}

func (nowhere) Nodes(context.Context) (chain.Nodes, error) { return nil, errors.New("broken") }

// The key of a wallet is gone. Its payments are put back if nothing of it can be under way;
// else nothing is recovered until the key is back.
func TestRecoveryWithoutAKey(t *testing.T) {
	for name, rest := range map[string]bool{"emptied": true, "at rest": true, "reserved": false, "unsent": false} {
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
			s.Lose(image)
			keyless := func(r *recovery.Recovery) {
				r.Keys, r.Keyed, r.Wallets = &fakechain.Keys{}, nil, []token.Address{fakechain.Wallet(0)}
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
