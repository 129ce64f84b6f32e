package simulation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/recovery"
	"github.com/remit-payouts/remit/internal/payments/settlement"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/simulation/fakechain"
	"github.com/remit-payouts/remit/internal/proof/simulation/oracle"
	"github.com/remit-payouts/remit/internal/proof/simulation/scheduler"
	"github.com/remit-payouts/remit/internal/sandbox/interpose"
)

// A Scenario is a Cluster in which every effect is applied, in order, but for the faults that the test asks for.
type Scenario struct {
	*Cluster
	faultless
	T       testing.TB // of the bubble
	Pending bool       // the scenario ends with payments pending, or an operator needed
	// Fate, if set, gives the outcome of each effect that no rule matches.
	Fate func(e *scheduler.Effect) scheduler.Outcome

	rules []*rule
	due   *timetable
}

// A rule is the outcome of some effects of some actors.
type rule struct {
	actor, effect string // prefixes; the effect is an operation and its arguments
	left          int    // how many effects still have the outcome; negative: all
	outcome       scheduler.Outcome
	fired         bool
}

// Perform runs a scenario in a bubble, finishes its Cluster, and fails t for each violation and for each rule that no
// effect matched. A test that fails shows the trace and the command that replays it. The sizes that setup leaves out
// are those of a small deployment: one wallet, two nodes, final after two blocks.
func Perform(t *testing.T, setup Setup, scenario func(*Scenario)) {
	t.Helper()
	setup.Wallets, setup.Nodes, setup.Instances = cmp.Or(setup.Wallets, 1), cmp.Or(setup.Nodes, 2), cmp.Or(setup.Instances, 2)
	setup.Depth, setup.Window = cmp.Or(setup.Depth, 2), cmp.Or(setup.Window, 64)
	setup.ConfirmationRule = cmp.Or(setup.ConfirmationRule, chain.ConfirmationRule{Depth: setup.Depth})
	setup.Coins, setup.Gwei = cmp.Or(setup.Coins, 1_000_000), cmp.Or(setup.Gwei, 1_000)
	synctest.Test(t, func(bubble *testing.T) {
		var trace []string
		c := NewCluster(setup, func(line string) { trace = append(trace, line) })
		defer c.Close()
		defer func() {
			if bubble.Failed() || t.Failed() {
				trace = Brief(trace)
				bubble.Logf("replay it with\n\tgo test ./internal/proof/simulation -run '^%s$'\nthe end of its trace, without routine:\n%s",
					strings.ReplaceAll(t.Name(), "/", "$/^"), strings.Join(trace[max(0, len(trace)-300):], "\n"))
			}
		}()
		s := &Scenario{Cluster: c, faultless: faultless{}, T: bubble, due: newTimetable()}
		scenario(s)
		for _, violation := range c.Finish(!s.Pending) {
			bubble.Error(violation)
		}
		for _, r := range s.rules {
			if !r.fired {
				bubble.Errorf("no effect of %q matched the fault %q: %s", r.actor, r.effect, r.outcome)
			}
		}
	})
}

// operations returns the operations of all effects: the methods of ports, and others of clients and engines.
func operations() []string {
	all := []string{"POST", "answer", "Hint", "Publish", "Enqueue", "Put", "Sign", "Ready"}
	for _, port := range []reflect.Type{reflect.TypeFor[store.Store](), reflect.TypeFor[chain.Node]()} {
		for m := range port.Methods() {
			all = append(all, m.Name)
		}
	}
	return all
}

// On gives the next effects of some actors a faulty outcome, so many times; 0 means always. actor is how the actors'
// names begin. effect is an operation, such as "Send", and possibly how its arguments begin: "Send node1". A rule that
// no effect matches fails the scenario, as does an unknown operation.
func (s *Scenario) On(actor, effect string, times int, o scheduler.Outcome) {
	s.T.Helper()
	if op, _, _ := strings.Cut(effect, " "); !slices.Contains(operations(), op) {
		s.T.Fatalf("no effect is called %q; there are %q", op, operations())
	}
	if times == 0 {
		times = -1
	}
	s.rules = append(s.rules, &rule{actor: actor, effect: effect, left: times, outcome: o})
}

// Off ends the rules of an effect.
func (s *Scenario) Off(effect string) {
	for _, r := range s.rules {
		if r.effect == effect {
			r.left = 0
		}
	}
}

// Thaw ends every freeze.
func (s *Scenario) Thaw() { s.scheduler.Thaw() }

func (s *Scenario) freeze() time.Duration { return 24 * time.Hour }

func (s *Scenario) outcome(e *scheduler.Effect) scheduler.Outcome {
	for _, r := range s.rules {
		if r.left != 0 && strings.HasPrefix(e.Actor.Name, r.actor) && strings.HasPrefix(e.Call.Op+" "+e.Call.Args+" ", r.effect+" ") {
			r.left--
			r.fired = true
			return r.outcome
		}
	}
	if s.Fate != nil {
		return s.Fate(e)
	}
	return scheduler.Apply
}

// Elapse lets time go by, with all that falls due in it.
func (s *Scenario) Elapse(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		s.step(s, s.due)
	}
}

// Until lets effects happen until done, or until a minute has elapsed.
func (s *Scenario) Until(done func() bool) {
	for end := time.Now().Add(time.Minute); time.Now().Before(end) && !done(); synctest.Wait() {
		s.step(s, s.due)
	}
}

// Is fails the scenario when got is not want.
func (s *Scenario) Is(what string, got, want any) {
	s.T.Helper()
	if got != want {
		s.T.Errorf("%s: %v, want %v", what, got, want)
	}
}

// IsState fails the scenario when an order's payment is not in a state.
func (s *Scenario) IsState(o oracle.Order, want payment.State) {
	s.T.Helper()
	s.Is("state of "+o.Key, s.Payment(o).State, want)
}

// After lets time go by and fails the scenario when an order's payment is not in a state then.
func (s *Scenario) After(d time.Duration, o oracle.Order, want payment.State) {
	s.T.Helper()
	s.Elapse(d)
	s.IsState(o, want)
}

// Begin posts an order, gives the first effect of its handler that matches a faulty outcome, and lets a second go by.
func (s *Scenario) Begin(handler string, instance int, o oracle.Order, effect string, how scheduler.Outcome) <-chan oracle.Answer {
	s.T.Helper()
	s.On(handler, effect, 1, how)
	answers := s.Post(handler, instance, o)
	s.Elapse(time.Second)
	return answers
}

// Await lets effects happen until an answer is there, or a minute has elapsed.
func (s *Scenario) Await(answers <-chan oracle.Answer) oracle.Answer {
	s.Until(func() bool { return len(answers) > 0 })
	select {
	case a := <-answers:
		return a
	default:
		return oracle.Answer{Err: context.DeadlineExceeded}
	}
}

// Ask posts an order and waits for the answer.
func (s *Scenario) Ask(handler string, o oracle.Order) oracle.Answer {
	return s.Await(s.Post(handler, 0, o))
}

// Pay posts an order that must be answered with a committed payment.
func (s *Scenario) Pay(handler string, o oracle.Order) payment.Payment {
	s.T.Helper()
	a := s.Ask(handler, o)
	if a.Err != nil {
		s.T.Errorf("paying %s: %v", o.Key, a.Err)
	}
	return a.Payment
}

// Payment returns the stored payment of an order, zero if there is none.
func (s *Scenario) Payment(o oracle.Order) payment.Payment {
	p, err := s.Store.Payment(context.Background(), o.ID())
	if err != nil {
		return payment.Payment{}
	}
	return p
}

// Record returns the stored record of a wallet.
func (s *Scenario) Record(n int) wallet.Wallet {
	s.T.Helper()
	w, err := s.Store.Wallet(context.Background(), s.walletID(n))
	if err != nil {
		s.T.Errorf("reading wallet %d: %v", n, err)
	}
	return w
}

// Steal lets a thief of a wallet's key use a nonce.
func (s *Scenario) Steal(n int, nonce, amount uint64) {
	s.oracle.Steal(fakechain.Wallet(n), nonce, token.Units(amount))
}

// Pause pauses a wallet, as an operator does.
func (s *Scenario) Pause(n int, reason string) {
	if err := s.Store.Pause(context.Background(), s.walletID(n), reason); err != nil {
		s.T.Errorf("pausing wallet %d: %v", n, err)
	}
}

// Resume ends the pause of a wallet, as an operator does.
func (s *Scenario) Resume(n int) {
	if err := s.Store.Repause(context.Background(), s.walletID(n), s.Record(n).Paused, ""); err != nil {
		s.T.Errorf("resuming wallet %d: %v", n, err)
	}
}

// Accept takes the nodes' chain for the right one, as an operator does.
func (s *Scenario) Accept() error { return s.accept(s.rail) }

// Reports returns the reports of the runs that have ended.
func (s *Scenario) Reports() []settlement.Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.reports)
}

// Recover runs `remit recover`, with changes, to its end, and reports whether that was good.
func (s *Scenario) Recover(changes ...func(*recovery.Recovery)) bool {
	s.StartRecovery(changes...)
	for end := time.Now().Add(time.Hour); time.Now().Before(end) && s.scheduler.Busy("recover") > 0; synctest.Wait() {
		s.step(s, s.due)
	}
	return !s.lost()
}

// inService is where the key of a wallet lies that signs over the network.
const inService wallet.KeyRef = "key service"

// errService is the error of every signature while the key service is down.
var errService = errors.New("key service is down")

// A keyService is the wallets' keys as engines reach them. Those that are not in
// secrets sign by an effect, and no two of their signatures are alike.
type keyService struct {
	*fakechain.Keys
	around     interpose.Around
	down       atomic.Bool
	signatures atomic.Uint64
}

func (k *keyService) Signer(ctx context.Context, r wallet.Registration) (wallet.Signer, error) {
	signer, err := k.Keys.Signer(ctx, r)
	if err != nil || r.Key == wallet.InSecret {
		return signer, err
	}
	return remote{k, r}, nil
}

type remote struct {
	*keyService
	of wallet.Registration
}

func (r remote) Ready(ctx context.Context) error {
	_, err := r.answer(ctx, "Ready", fakechain.Tx{})
	return err
}

func (r remote) Sign(ctx context.Context, tx chain.Tx, nonce uint64) (chain.Signed, error) {
	return r.answer(ctx, "Sign", fakechain.Tx{Tx: tx, From: r.of.Address, Nonce: nonce})
}

func (r remote) answer(ctx context.Context, op string, tx fakechain.Tx) (chain.Signed, error) {
	answer := &struct { // of its own: an answer that is lost may still be written
		chain.Signed
		err error
	}{}
	err := r.around(ctx, interpose.Call{Op: op, Args: fmt.Sprintf("%x#%d", r.of.Address[18:], tx.Nonce)}, func(context.Context) {
		if r.down.Load() {
			answer.err = errService
			return
		}
		tx.Salt = r.signatures.Add(1)
		answer.Signed = tx.Sign()
	})
	if err != nil {
		return chain.Signed{}, err
	}
	return answer.Signed, answer.err
}

// Asset returns the coin of the n-th rail.
func Asset(n int) token.Coin { return assets[n].Coin() }

// ChainOf returns the chain of the n-th rail.
func (s *Scenario) ChainOf(n int) *fakechain.Chain { return s.rails[n].Chain }
