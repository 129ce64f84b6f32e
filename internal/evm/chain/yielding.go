package chain

import (
	"context"
	"sync/atomic"
	"time"
)

type yieldingKey struct{}

// Yielding returns a context whose calls let others go first where a node limits its rate, and a function that returns
// the longest time that one of these calls has waited for such a node.
func Yielding(ctx context.Context) (context.Context, func() time.Duration) {
	longest := new(atomic.Int64)
	return context.WithValue(ctx, yieldingKey{}, longest), func() time.Duration { return time.Duration(longest.Load()) }
}

// Yields reports whether the calls of ctx are to let others go first.
func Yields(ctx context.Context) bool { return ctx.Value(yieldingKey{}) != nil }

// Waited records that a call of ctx has waited for a node that limits its rate.
func Waited(ctx context.Context, d time.Duration) {
	longest, ok := ctx.Value(yieldingKey{}).(*atomic.Int64)
	for ok && int64(d) > longest.Load() && !longest.CompareAndSwap(longest.Load(), int64(d)) {
	}
}
