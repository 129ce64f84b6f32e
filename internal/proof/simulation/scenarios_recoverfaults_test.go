package simulation_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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

// prepared puts a payment of an order that nobody has committed into tables, with a change.
func prepared(s *simulation.Scenario, tables *memory.Payments, made payment.Payment, change func(*payment.Payment)) {
	p := payment.New(made.ID, payment.Request{Merchant: made.Merchant, Mode: made.Mode, IdempotencyKey: made.IdempotencyKey, To: made.To,
		Amount: made.Amount}, made.Token, made.Network, time.Now())
	p.Entries, p.BatchContract, p.Tx = made.Entries, made.BatchContract, made.Tx
	change(&p)
	_, _, err := tables.Create(s.T.Context(), p.AssignedTo(made.Wallet, p.Tx))
	s.Is("prepared", err, nil)
}

// A disturbance lets one effect of the first recovery fail, outside of its rounds of settling.
type disturbance struct {
	n        int // which, counted from 0; negative: none
	how      scheduler.Outcome
	failed   *scheduler.Effect // the effect
	effects  []string          // operations of all
	settling bool
	waited   bool // the recovery has said that it waits for something
}

// fate is the policy of a Scenario. A node that is asked again at once fails again; so do all
// nodes that are asked for fees.
func (d *disturbance) fate(e *scheduler.Effect) scheduler.Outcome {
	if e.Actor.Name != "recover1" || d.settling {
		return scheduler.Apply
	}
	d.effects = append(d.effects, e.Call.Op)
	if len(d.effects)-1 == d.n {
		d.failed = e
		return d.how
	}
	since := d.effects[max(0, min(d.n, len(d.effects))):]
	again := d.failed != nil && (d.failed.Call == e.Call || e.Call.Op == "Fees") &&
		!slices.ContainsFunc(since, func(op string) bool { return op != e.Call.Op })
	return map[bool]scheduler.Outcome{true: d.how}[again]
}

// change has the recovery report to the disturbance.
func (d *disturbance) change(r *recovery.Recovery) {
	settle, say := r.Settle, r.Say
	r.Settle = func(ctx context.Context) error {
		d.settling = true
		defer func() { d.settling = false }()
		return settle(ctx)
	}
	r.Say = func(format string, args ...any) {
		say(format, args...)
		d.waited = d.waited || strings.HasPrefix(format, "waiting: ")
	}
}

// tolerated reports whether a recovery goes on without the effect that failed: one node's answer
// queries that others answer too.
func (d *disturbance) tolerated() bool {
	switch d.failed.Call.Op {
	case "Head", "BlockHashes":
		return d.n < slices.Index(d.effects, "SetCompared")
	case "Fees":
		return d.effects[d.n-1] == "Fees" // the first node has answered
	default:
		return d.failed.Call.Op == "Estimate"
	}
}

// perform loses tables that show one payment as reserved, and one with another amount than was paid since. It
// recovers them under the disturbance, again if that failed, and returns the final payments and wallet.
func (d *disturbance) perform(t *testing.T) (tables string) {
	name := fmt.Sprintf("effect %d %s", d.n, d.how)
	perform(t, name, simulation.Setup{Remote: 1, Window: 4, Spare: 2, Pause: time.Minute}, func(s *simulation.Scenario) {
		s.Pay("known", order(3))
		s.Elapse(4 * time.Minute)
		s.Begin("killed", 0, order(0), "Reserve", scheduler.KillAfter)
		image := s.Store.Image()
		payFirst(s, "lost", 3)
		s.Elapse(4 * time.Minute)
		prepared(s, image, s.Payment(order(2)), func(p *payment.Payment) { p.Amount = unit(7) })
		s.Forget(image)
		s.Idle, s.Fate = true, d.fate
		s.Recover(d.change)
		if _, err := s.LastRecovery(); d.failed != nil && !d.tolerated() {
			s.Is(d.failed.Call.Op+" was missed", err != nil || d.waited, true)
		}
		s.Is("recovered", s.Recovered() || s.Recover(), true)
		s.Idle = false
		s.Elapse(2 * time.Minute)
		for n := range 4 {
			p := s.Payment(order(n))
			tables += fmt.Sprintln(p.State, p.Amount, p.To, p.Wallet, p.TxHash, p.Onchain, p.Block)
		}
		tables += fmt.Sprintf("paused %q, %d reserved", s.Record(0).Paused, len(s.Record(0).Reservations))
	})
	return tables
}

// Each effect of a recovery fails once, and each write also when it was applied: the recovery ends
// with an error, or waits, and the next one leaves the tables of an undisturbed one.
func TestRecoveryUnderFaults(t *testing.T) {
	undisturbed := disturbance{n: -1}
	want := undisturbed.perform(t)
	if t.Failed() {
		return
	}
	for n, op := range undisturbed.effects {
		for _, how := range []scheduler.Outcome{scheduler.FailBefore, scheduler.LoseAnswer} {
			if how == scheduler.LoseAnswer && !slices.Contains(writes, op) {
				continue
			}
			d := disturbance{n: n, how: how}
			if got := d.perform(t); got != want {
				t.Fatalf("%s: %s, then the tables are\n%s, want\n%s", op, how, got, want)
			}
		}
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

// spent are nodes whose logs say that another account's coins moved, by an allowance.
type spent struct{ chain.Node }

func (n spent) Transfers(ctx context.Context, coin token.Address, _ []token.Address, first, last uint64) ([]chain.LoggedTransfer, error) {
	return n.Node.Transfers(ctx, coin, []token.Address{fakechain.Wallet(0)}, first, last)
}

// A transaction that takes a wallet's coins by an allowance is no payment of it, whatever its
// data: here one of another wallet, which nobody names to the recovery.
func TestTransferByAnother(t *testing.T) {
	simulation.Perform(t, simulation.Setup{}, func(s *simulation.Scenario) {
		s.Pay("client", order(0))
		s.Elapse(4 * time.Minute)
		s.Idle = true
		image := s.Store.Image()
		s.Forget(memory.NewPayments())
		s.Recover(simulation.Through(func(n chain.Node) chain.Node { return spent{n} }), func(r *recovery.Recovery) {
			r.Keyed, r.Wallets = nil, []token.Address{fakechain.Payee(9)}
		})
		report, _ := s.LastRecovery()
		s.Is("no payment", len(report.Foreign), 1)
		s.Is("put back", report.Stored, 0)
		s.Lose(image)
		s.Is("recovered", s.Recover(), true)
		s.Idle = false
		s.IsState(order(0), payment.Confirmed)
	})
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
		prepared(s, wrong, made, func(*payment.Payment) {})
		p, _ := wrong.Payment(ctx, made.ID)
		p, err := p.Commit(chain.Signed{Hash: chain.Hash{1}, Raw: []byte{1}}, time.Now())
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

// The image shows a payment as prepared in another way than it was made since. It is stored as it was made.
func TestPreparedOtherwise(t *testing.T) {
	for name, change := range map[string]func(*payment.Payment){
		"another recipient": func(p *payment.Payment) { p.Entries[0].To = fakechain.Payee(9) },
		"another contract":  func(p *payment.Payment) { p.BatchContract = token.Address{0xbc} },
		"without its id":    func(p *payment.Payment) { p.Tx.Data = p.CallData(false) },
	} {
		perform(t, name, simulation.Setup{}, func(s *simulation.Scenario) {
			s.Pay("known", order(1))
			s.Elapse(4 * time.Minute)
			image := s.Store.Image()
			made := s.Pay("lost", batch(0))
			s.Elapse(4 * time.Minute)
			prepared(s, image, made, func(p *payment.Payment) {
				p.Entries = slices.Clone(p.Entries)
				change(p)
			})
			s.Lose(image)
			s.Is("recovered", s.Recover(), true)
			p := s.Payment(batch(0))
			s.Is("state", p.State, payment.Confirmed)
			s.Is("to", p.Entries[0].To, made.Entries[0].To)
			s.Is("contract", p.BatchContract, made.BatchContract)
			s.Is("call data", string(p.Tx.Data), string(made.Tx.Data))
		})
	}
}

// A node is as far behind as a recovery uses up nonces, or further: then nothing is concluded.
func TestRecoveryFromNodesFarApart(t *testing.T) {
	for behind, far := range map[int]bool{4: false, 5: true} {
		perform(t, fmt.Sprint(behind), simulation.Setup{Spare: 4}, func(s *simulation.Scenario) {
			payFirst(s, "mined", behind)
			s.Elapse(4 * time.Minute)
			s.Chain.Nodes[1].Lag = 1_000
			s.Chain.Nodes[1].Follow()
			s.Lose(memory.NewPayments())
			s.StartRecovery()
			s.Elapse(time.Minute)
			_, err := s.LastRecovery()
			s.Is("refused", err != nil, far)
			s.Chain.Each((*fakechain.Node).Heal)
			s.Elapse(10 * time.Minute)
			s.Is("recovered", s.Recovered() || s.Recover(), true)
		})
	}
}

// A wallet runs out of ether when half of its no-ops are mined. Recovery asks once, for
// the ether of the others, and needs no more.
func TestRecoveryNeedsEther(t *testing.T) {
	simulation.Perform(t, simulation.Setup{Wallets: 2}, func(s *simulation.Scenario) {
		s.Pay("mined", order(0))
		s.Elapse(4 * time.Minute)
		s.Chain.TakeGas(fakechain.Wallet(1))
		s.Chain.Fund(fakechain.Wallet(1), unit(0), unit(30_000_000))
		s.Lose(memory.NewPayments())
		asked := 0
		s.Is("recovered", s.Recover(func(r *recovery.Recovery) {
			say := r.Say
			r.Say = func(format string, args ...any) {
				say(format, args...)
				var ether, to string
				if n, _ := fmt.Sscanf(fmt.Sprintf(format, args...), "waiting for ether: send %s ether to %s,", &ether, &to); n > 0 {
					asked++
					s.Is("to", strings.TrimSuffix(to, ","), fakechain.Wallet(1).String())
					wei, err := token.ParseTokens(ether, 18)
					s.Is("an amount", err, nil)
					txs, _, _ := s.Store.PendingTxs(s.T.Context(), s.Record(1).ID, 0)
					mined, has := s.Chain.MostMined(fakechain.Wallet(1)), s.Chain.Account(fakechain.Wallet(1), 0).Gas
					all, _ := txs[0].Gas.Times(16 - mined)
					s.Is("some are mined", mined > 0, true)
					s.Is("what the others need", wei, all.Sub(has))
					s.Chain.Fund(fakechain.Wallet(1), unit(0), wei)
				}
			}
		}), true)
		s.Is("asked", asked, 1)
	})
}
