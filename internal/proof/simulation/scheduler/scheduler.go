// Package scheduler holds back every effect of a simulation until its caller has chosen the next one and its outcome.
// An effect is an act of an actor outside its own memory: a read, a write, a request to a node. The package knows no
// faults but those of effects, and no policy that chooses.
package scheduler

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/remit-payouts/remit/internal/sandbox/interpose"
)

// ErrInjected is the error of an effect that was made to fail. No port names it: engines take the outcome for unknown.
var ErrInjected = errors.New("injected fault")

// ErrOver is the error of every effect after Close.
var ErrOver = errors.New("the simulation is over")

// An Actor has effects: a handler of a request, a run of check-receipts, a
// client. A dead actor has none any more: its goroutine waits for Close.
type Actor struct {
	Name        string
	cancel      context.CancelFunc // of the actor's context
	dead, ended atomic.Bool
}

// End reports that the actor has nothing more to do.
func (a *Actor) End() {
	a.cancel()
	a.ended.Store(true)
}

// Dead reports whether a fault has killed the actor.
func (a *Actor) Dead() bool { return a.dead.Load() }

type actorKey struct{}

// ActorOf returns the name of the actor that ctx belongs to.
func ActorOf(ctx context.Context) string { return ctx.Value(actorKey{}).(*Actor).Name }

// An Effect waits for its outcome.
type Effect struct {
	Actor   *Actor
	Call    interpose.Call
	Asked   time.Time
	Applied bool // only the answer is missing
	Lost    bool // its actor does not get its answer

	apply     func()
	answer    chan error
	abandoned bool      // its actor does not wait any more
	frozen    bool      // with the process of its actor: not even a deadline wakes it
	thaw      time.Time // frozen until then
}

// A Scheduler holds the effects that wait. Make one with New. All of its methods may be called from
// many goroutines, except Ready, Perform and Thaw, which only the simulation's driver calls.
type Scheduler struct {
	root   context.Context
	cancel context.CancelFunc
	over   chan struct{}

	mu      sync.Mutex
	waiting []*Effect
	actors  []*Actor
}

// New returns a Scheduler without actors. Close it.
func New() *Scheduler {
	s := &Scheduler{over: make(chan struct{})}
	s.root, s.cancel = context.WithCancel(context.Background())
	return s
}

// Close ends every actor that is still there, dead ones included.
func (s *Scheduler) Close() {
	s.cancel()
	close(s.over)
}

// Actor makes a new actor and the context that its effects are called with, which ends after life; 0 means never.
func (s *Scheduler) Actor(name string, life time.Duration) (context.Context, *Actor) {
	a := &Actor{Name: name}
	ctx := context.WithValue(s.root, actorKey{}, a)
	if life == 0 {
		ctx, a.cancel = context.WithCancel(ctx)
	} else {
		ctx, a.cancel = context.WithTimeout(ctx, life)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.actors = append(s.actors, a)
	return ctx, a
}

// Busy counts the actors whose names begin with prefix that are neither dead nor at their end.
func (s *Scheduler) Busy(prefix string) (busy int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.actors {
		if strings.HasPrefix(a.Name, prefix) && !a.dead.Load() && !a.ended.Load() {
			busy++
		}
	}
	return busy
}

// Sleep waits for d, or until ctx or the simulation ends.
func (s *Scheduler) Sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	case <-s.over:
	}
}

// Around is an interpose.Around: it makes the call an effect of the actor whose context it is, and returns when that
// has its outcome. The call of a dead actor returns at Close only.
func (s *Scheduler) Around(ctx context.Context, c interpose.Call, apply func(context.Context)) error {
	a := ctx.Value(actorKey{}).(*Actor)
	if a.dead.Load() {
		<-s.over
		return ErrOver
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	e := &Effect{Asked: time.Now(), Actor: a, Call: c, answer: make(chan error, 1), apply: func() { apply(context.WithoutCancel(ctx)) }}
	s.mu.Lock()
	s.waiting = append(s.waiting, e)
	s.mu.Unlock()
	done := ctx.Done()
	for {
		select {
		case err := <-e.answer:
			return err
		case <-s.over:
			return ErrOver
		case <-done:
			done = nil // a frozen actor goes on when it thaws, however late that is
			s.mu.Lock()
			gone := !e.frozen
			e.abandoned = gone
			s.mu.Unlock()
			if gone {
				return ctx.Err()
			}
		}
	}
}

// Ready returns the effects that are not frozen at now, in an order that does not depend on which goroutine came first.
func (s *Scheduler) Ready(now time.Time) []*Effect {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.SortStableFunc(s.waiting, func(a, b *Effect) int {
		return cmp.Or(cmp.Compare(a.Actor.Name, b.Actor.Name), cmp.Compare(a.Call.Op, b.Call.Op), cmp.Compare(a.Call.Args, b.Call.Args))
	})
	ready := make([]*Effect, 0, len(s.waiting))
	for _, e := range s.waiting {
		if !e.thaw.After(now) {
			ready = append(ready, e)
		}
	}
	return ready
}

// Perform gives an effect its outcome. late is when an effect that is frozen or applied later goes on.
func (s *Scheduler) Perform(e *Effect, o Outcome, late time.Time) {
	e.Lost = s.orphaned(e) || o == LoseAnswer || o == KillAfter
	if s.orphaned(e) {
		// A request that no actor waits for: it arrives now, or never.
		s.remove(e)
		if o != FailBefore && o != KillBefore && !e.Applied {
			e.apply()
		}
		return
	}
	switch o {
	case Apply, LoseAnswer, KillAfter, FreezeDone:
		if !e.Applied {
			e.apply()
			e.Applied = true
		}
	}
	switch o {
	case Freeze, FreezeDone, ApplyLate:
		e.thaw = late
		s.mu.Lock()
		e.frozen, e.abandoned = o != ApplyLate, o == ApplyLate
		s.mu.Unlock()
		if o == ApplyLate {
			e.answer <- ErrInjected
		}
	case KillLate:
		e.Actor.dead.Store(true)
		e.thaw = late
	case KillBefore, KillAfter:
		s.remove(e)
		e.Actor.dead.Store(true)
	case Apply:
		s.remove(e)
		e.answer <- nil
	case FailBefore, LoseAnswer:
		s.remove(e)
		e.answer <- ErrInjected
	}
}

// orphaned reports whether no actor waits for an effect any more.
func (s *Scheduler) orphaned(e *Effect) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return e.abandoned || e.Actor.dead.Load()
}

func (s *Scheduler) remove(e *Effect) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = slices.DeleteFunc(s.waiting, func(w *Effect) bool { return w == e })
}

// Kill kills the actors that which names, with their calls under way, except the requests that arrives names.
func (s *Scheduler) Kill(which, arrives func(name string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.actors {
		if which(a.Name) {
			a.dead.Store(true)
		}
	}
	s.waiting = slices.DeleteFunc(s.waiting, func(e *Effect) bool { return which(e.Actor.Name) && !arrives(e.Call.Op) })
}

// Thaw ends every freeze.
func (s *Scheduler) Thaw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.waiting {
		e.thaw = time.Time{}
	}
}

// An Outcome is the fate of one effect.
type Outcome int

// The outcomes. An effect can fail in two ways: not applied, or applied with its answer lost.
const (
	Apply      Outcome = iota // applied and answered: no fault
	FailBefore                // not applied; its actor gets ErrInjected
	LoseAnswer                // applied; its actor gets ErrInjected
	ApplyLate                 // its actor gets ErrInjected, and it is applied later
	Freeze                    // its actor waits long, then it is applied and answered
	FreezeDone                // applied at once, and answered after long
	KillBefore                // its actor dies; not applied
	KillAfter                 // its actor dies just after it was applied
	KillLate                  // its actor dies, and it is applied later
)

var outcomes = [...]string{"applied", "failed, not applied", "applied, answer lost", "failed, applied later", "frozen",
	"applied, answer frozen", "killed before", "killed after", "killed, applied later"}

// String describes the outcome.
func (o Outcome) String() string { return outcomes[o] }

// Faults returns every outcome but Apply.
func Faults() []Outcome {
	faults := make([]Outcome, 0, len(outcomes)-1)
	for o := FailBefore; int(o) < len(outcomes); o++ {
		faults = append(faults, o)
	}
	return faults
}
