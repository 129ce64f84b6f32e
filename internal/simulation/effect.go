package simulation

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// ErrInjected is the error of an effect that was made to fail. No port names
// it, so the caller has to take the outcome for unknown.
var ErrInjected = errors.New("injected fault")

// errOver is what everything fails with once a World is torn down.
var errOver = errors.New("the simulation is over")

// An Outcome is what becomes of one effect.
type Outcome int

// The outcomes. Every effect can fail both ways: not applied, and applied but
// the answer lost.
const (
	Apply      Outcome = iota // applied and answered
	FailBefore                // not applied; the caller gets an error
	LoseAnswer                // applied; the caller gets an error
	ApplyLate                 // the caller gets an error, and it is applied at some later time
	Freeze                    // the caller waits long, then it is applied and answered
	FreezeDone                // applied at once, answered after long
	KillBefore                // the caller dies; not applied
	KillAfter                 // the caller dies just after it was applied
	KillLate                  // the caller dies, and it is applied at some later time
	outcomes
)

var outcomeNames = [...]string{"applied", "failed, not applied", "applied, answer lost", "failed, applied later", "frozen",
	"applied, answer frozen", "killed before", "killed after", "killed, applied later"}

// String describes the outcome.
func (o Outcome) String() string { return outcomeNames[o] }

// An actor does things in a World: a request's handler, a run, a client. One
// that is dead never does anything again.
type actor struct {
	name        string
	dead, ended atomic.Bool
	cancel      context.CancelFunc
}

type actorKey struct{}

// A call is an effect that waits for the scheduler.
type call struct {
	actor    *actor
	op, args string
	apply    func()
	answer   chan error
	gone     bool      // the caller does not wait any more
	frozen   bool      // with its caller's process: not even a deadline wakes it
	applied  bool      // only the answer is missing
	thaw     time.Time // frozen until then
}

// A desk is where effects wait to be let through, one at a time.
type desk struct {
	mu     sync.Mutex
	parked []*call
	over   chan struct{}
}

// effect parks a call until the scheduler has decided what becomes of it. A
// dead actor's call never returns.
func effect[T any](ctx context.Context, d *desk, op, args string, do func(context.Context) (T, error)) (T, error) {
	var lost T
	a := ctx.Value(actorKey{}).(*actor)
	if a.dead.Load() {
		<-d.over
		return lost, errOver
	}
	if err := ctx.Err(); err != nil {
		return lost, err
	}
	result := &struct {
		value T
		err   error
	}{}
	c := &call{actor: a, op: op, args: args, answer: make(chan error, 1)}
	c.apply = func() { result.value, result.err = do(context.WithoutCancel(ctx)) }
	if !d.park(c) {
		return lost, errOver
	}
	fault, err := d.await(ctx, c)
	if err = cmp.Or(err, fault); err != nil {
		return lost, err
	}
	return result.value, result.err
}

// await returns c's fault when c is answered, or an error when its caller
// gives up. A caller that is frozen does not: it goes on when it thaws, however
// late that is.
func (d *desk) await(ctx context.Context, c *call) (fault, err error) {
	done := ctx.Done()
	for {
		select {
		case fault := <-c.answer:
			return fault, nil
		case <-d.over:
			return nil, errOver
		case <-done:
			done = nil
			d.mu.Lock()
			c.gone = !c.frozen
			gone := c.gone
			d.mu.Unlock()
			if gone {
				return nil, ctx.Err()
			}
		}
	}
}

func (d *desk) park(c *call) bool {
	select {
	case <-d.over:
		return false
	default:
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.parked = append(d.parked, c)
	return true
}

// ready returns the calls that are not frozen at now, in an order that does
// not depend on which goroutine came first.
func (d *desk) ready(now time.Time) []*call {
	d.mu.Lock()
	defer d.mu.Unlock()
	slices.SortStableFunc(d.parked, func(a, b *call) int {
		return cmp.Or(cmp.Compare(a.actor.name, b.actor.name), cmp.Compare(a.op, b.op), cmp.Compare(a.args, b.args))
	})
	all := make([]*call, 0, len(d.parked))
	for _, c := range d.parked {
		if !c.thaw.After(now) {
			all = append(all, c)
		}
	}
	return all
}

// remove takes a call off the desk.
func (d *desk) remove(c *call) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.parked = slices.DeleteFunc(d.parked, func(p *call) bool { return p == c })
}

// orphaned reports whether nobody waits for a call any more.
func (d *desk) orphaned(c *call) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return c.gone || c.actor.dead.Load()
}

// perform makes an outcome of a call happen. late is when what is frozen goes
// on.
func (d *desk) perform(c *call, o Outcome, late time.Time) {
	if d.orphaned(c) {
		// A request that nobody waits for: it arrives now, or never.
		d.remove(c)
		if o != FailBefore && o != KillBefore && !c.applied {
			c.apply()
		}
		return
	}
	switch o {
	case Apply, LoseAnswer, KillAfter, FreezeDone:
		if !c.applied {
			c.apply()
			c.applied = true
		}
	}
	switch o {
	case Freeze, FreezeDone:
		c.thaw = late
		d.mu.Lock()
		c.frozen = true
		d.mu.Unlock()
		return
	case ApplyLate:
		c.thaw = late
		d.mu.Lock()
		c.gone = true
		d.mu.Unlock()
		c.answer <- ErrInjected
		return
	case KillLate:
		c.actor.dead.Store(true)
		c.thaw = late
		return
	}
	d.remove(c)
	switch o {
	case Apply:
		c.answer <- nil
	case FailBefore, LoseAnswer:
		c.answer <- ErrInjected
	case KillBefore, KillAfter:
		c.actor.dead.Store(true)
	}
}

// thaw ends every freeze.
func (d *desk) thaw() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.parked {
		c.thaw = time.Time{}
	}
}
