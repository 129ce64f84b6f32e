// Package fault holds the misbehaviour of everything around Remit, once: nodes with habits, services behind a bad
// network, and processes that end between two calls of their ports. The acceptance runs of bench and the page of
// `remit local` use it, and decide when.
package fault

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/remit-payouts/remit/internal/sandbox/interpose"
)

// ErrEnded is the answer of every port to a process that has ended. No line that
// reads it has an effect: all effects go through the ports.
var ErrEnded = errors.New("the process has ended: the page or a test killed it here")

// A Process is the process that serves one request. It ends at its Cut: from then
// on no call of its ports reaches a table, a node or a queue, as after SIGKILL.
type Process struct {
	cut   Cut
	ended atomic.Bool
}

// A Cut is the place at which a process ends: just before or just after it makes a
// call of this name. The zero Cut is none.
type Cut struct {
	Op     string // as of interpose.Call: "Commit"
	Before bool
}

// NewProcess returns a process that ends at cut.
func NewProcess(cut Cut) *Process { return &Process{cut: cut} }

type key struct{}

// With returns a context whose calls of ports are those of p.
func (p *Process) With(ctx context.Context) context.Context {
	return context.WithValue(ctx, key{}, p)
}

// HasEnded reports whether the process of ctx has ended. A context without a process never ends so.
func HasEnded(ctx context.Context) bool {
	p, ok := ctx.Value(key{}).(*Process)
	return ok && p.ended.Load()
}

// Around makes a call of a port for the process of ctx, or ends the process there. It implements
// interpose.Around. Effects under way at that moment may still arrive.
func Around(ctx context.Context, c interpose.Call, apply func(context.Context)) error {
	p, ok := ctx.Value(key{}).(*Process)
	if !ok {
		apply(ctx)
		return nil
	}
	here := p.cut.Op == c.Op
	if here && p.cut.Before {
		p.ended.Store(true)
	}
	if p.ended.Load() {
		return ErrEnded
	}
	if apply(ctx); here {
		p.ended.Store(true)
	}
	if p.ended.Load() {
		return ErrEnded
	}
	return nil
}
