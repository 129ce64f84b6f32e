package simulation_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"remit/internal/memory"
	"remit/internal/payment"
	"remit/internal/recovery"
	"remit/internal/simulation"
	"remit/internal/simulation/fakechain"
	"remit/internal/simulation/scheduler"
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

// tolerated reports whether a recovery goes on without the effect that failed: one node's
// answer to what others answer too.
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

// perform loses tables that show one payment as reserved, and one as another payment than was
// made since, and recovers them under the disturbance, and again if that failed. It returns
// what the tables say in the end.
func (d *disturbance) perform(t *testing.T) (tables string) {
	name := fmt.Sprintf("effect %d %s", d.n, d.how)
	perform(t, name, simulation.Setup{Remote: 1, Window: 4, Spare: 2, Pause: time.Minute}, func(s *simulation.Scenario) {
		s.Pay("known", order(3))
		s.Elapse(4 * time.Minute)
		s.Begin("killed", 0, order(0), "Reserve", scheduler.KillAfter)
		image := s.Store.Image()
		for n := range 3 {
			s.Pay("lost", order(n))
		}
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

// Each effect of a recovery fails once, and each write also when it was applied: the recovery
// ends with an error, or waits, and the next one leaves what an undisturbed one leaves.
func TestRecoveryUnderFaults(t *testing.T) {
	undisturbed := disturbance{n: -1}
	want := undisturbed.perform(t)
	for n, op := range undisturbed.effects {
		for _, how := range []scheduler.Outcome{scheduler.FailBefore, scheduler.LoseAnswer} {
			if how == scheduler.LoseAnswer && !slices.Contains(writes, op) {
				continue
			}
			d := disturbance{n: n, how: how}
			if got := d.perform(t); got != want {
				t.Errorf("%s: %s, then the tables are\n%s, want\n%s", op, how, got, want)
			}
		}
	}
}

var _ = fakechain.Batcher
