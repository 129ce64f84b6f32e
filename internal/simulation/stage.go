package simulation

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"remit/internal/memory"
	"remit/internal/payment"
	"remit/internal/settlement"
	"remit/internal/token"
	"remit/internal/wallet"
)

// A Stage is a World for a scenario: everything works, in order, but for what
// the scenario says.
type Stage struct {
	*World
	T       testing.TB
	rules   []*rule
	clock   *clock
	calm    calm
	Halted  bool // no blocks are made
	Idle    bool // no runs start by themselves
	Pending bool // the scenario ends with payments pending, or a person needed
}

// A rule is the outcome of some effects of some actors.
type rule struct {
	actor, effect string // prefixes; the effect is its operation and arguments
	times         int    // how many of them; 0: all
	outcome       Outcome
}

// Perform runs a scenario, then heals the World, settles, and judges.
func Perform(t *testing.T, setup Setup, scenario func(*Stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := NewWorld(setup)
		defer w.Close()
		var trace []string
		w.Trace = func(line string) { trace = append(trace, line) }
		s := &Stage{World: w, T: t, clock: w.clock(), calm: calm{w: w}}
		scenario(s)
		w.Heal()
		w.Settle()
		w.Replay()
		for _, line := range w.Verdict(!s.Pending) {
			t.Error(line)
		}
		if t.Failed() {
			t.Log("\n" + strings.Join(trace[max(0, len(trace)-300):], "\n"))
		}
	})
}

// On makes effects of actors end otherwise than well. times 0 means always.
func (s *Stage) On(actor, effect string, times int, o Outcome) {
	s.rules = append(s.rules, &rule{actor: actor, effect: effect, times: times, outcome: o})
}

// Off forgets what was said of an effect.
func (s *Stage) Off(effect string) {
	for _, r := range s.rules {
		if r.effect == effect {
			r.actor = "nobody"
		}
	}
}

// Thaw lets everything that is frozen go on.
func (s *Stage) Thaw() { s.desk.thaw() }

func (s *Stage) pick(ready []*call) *call { return ready[0] }
func (s *Stage) nap() time.Duration       { return time.Second }
func (s *Stage) freeze() time.Duration    { return 24 * time.Hour }
func (s *Stage) runs() bool               { return !s.Idle }

func (s *Stage) miner() *Node {
	if s.Halted {
		return nil
	}
	return s.calm.miner()
}

func (s *Stage) outcome(c *call) Outcome {
	for _, r := range s.rules {
		if strings.HasPrefix(c.actor.name, r.actor) && strings.HasPrefix(c.op+" "+c.args, r.effect) {
			if r.times--; r.times == 0 {
				r.actor = "nobody"
			}
			return r.outcome
		}
	}
	return Apply
}

// Pass lets time go by, with all that falls due in it.
func (s *Stage) Pass(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		s.step(s, s.clock)
	}
}

// Post starts a request and returns where its answer will be.
func (s *Stage) Post(name string, instance int, r Request) <-chan Answer {
	return s.serve(name, instance, r)
}

// Await lets things happen until an answer is there, or nobody can give one
// within a minute.
func (s *Stage) Await(answers <-chan Answer) Answer {
	for end := time.Now().Add(minute); time.Now().Before(end); {
		s.step(s, s.clock)
		synctest.Wait()
		select {
		case a := <-answers:
			return a
		default:
		}
	}
	return Answer{Err: context.DeadlineExceeded}
}

// Ask posts a request and waits for its answer.
func (s *Stage) Ask(name string, r Request) Answer { return s.Await(s.Post(name, 0, r)) }

// Pay posts a request that must be answered with a committed payment.
func (s *Stage) Pay(name string, r Request) payment.Payment {
	s.T.Helper()
	a := s.Ask(name, r)
	if a.Err != nil {
		s.T.Errorf("paying %s: %v", r.Key, a.Err)
	}
	return a.Payment
}

// Payment returns what is stored of a request's payment.
func (s *Stage) Payment(r Request) payment.Payment {
	p, err := s.Store.Payment(context.Background(), r.id())
	if err != nil {
		return payment.Payment{}
	}
	return p
}

// State returns where a request's payment stands.
func (s *Stage) State(r Request) payment.State { return s.Payment(r).State }

// Record returns what is stored of a wallet.
func (s *Stage) Record(n int) wallet.Wallet {
	w, err := s.Store.Wallet(context.Background(), walletID(Wallet(n)))
	if err != nil {
		s.T.Errorf("reading wallet %d: %v", n, err)
	}
	return w
}

// PendingTx returns what is stored for a nonce of a wallet.
func (s *Stage) PendingTx(n int, nonce uint64) (wallet.PendingTx, error) {
	return s.Store.PendingTx(context.Background(), walletID(Wallet(n)), nonce)
}

// Steal has somebody else who holds the key use a nonce of a wallet.
func (s *Stage) Steal(n int, nonce, amount uint64) {
	s.judge.steal(Wallet(n), nonce, token.Units(amount))
}

// Wanting says that payments may fail for want of coins here.
func (s *Stage) Wanting() { s.judge.wanting = true }

// HangUp cancels what an actor was called with, as a caller does who does not
// wait any more.
func (s *Stage) HangUp(name string) {
	for _, a := range s.actors {
		if a.name == name {
			a.cancel()
		}
	}
}

// AddWallet puts one more wallet into the secret, with coins and ether.
func (s *Stage) AddWallet() {
	n := s.Wallets
	s.Wallets++
	s.Keys.Add(Wallet(n))
	s.Chain.Fund(Wallet(n), token.Units(s.Coins), token.Units(1_000_000_000_000))
}

// Pause does what an operator does.
func (s *Stage) Pause(n int, reason string) {
	if err := s.Store.Pause(context.Background(), walletID(Wallet(n)), reason); err != nil {
		s.T.Errorf("pausing wallet %d: %v", n, err)
	}
}

// Resume does what an operator does.
func (s *Stage) Resume(n int) {
	if err := s.Store.Repause(context.Background(), walletID(Wallet(n)), s.Record(n).Paused, ""); err != nil {
		s.T.Errorf("resuming wallet %d: %v", n, err)
	}
}

// Reports returns what runs that have ended reported.
func (s *Stage) Reports() []settlement.Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.reports)
}

// Restore takes the tables back to an image, and replaces every process. What
// was promised since then is lost: the judge only holds on to what was paid.
func (s *Stage) Restore(image *memory.Payments) {
	s.Store.Restore(image)
	for i := range s.instances {
		s.Restart(i)
	}
	for key, r := range s.judge.requests {
		if s.State(r) == "" {
			s.judge.lost[key] = true
		}
	}
	clear(s.judge.ceilings)
}
