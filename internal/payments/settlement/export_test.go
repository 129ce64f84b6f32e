package settlement

import (
	"context"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/payments/store"
)

// Add is Report.add.
func (r *Report) Add(o Report) { r.add(o) }

// Next is Report.next.
func (r *Report) Next(round Report) { r.next(round) }

// NoteSilent is Settler.noteSilent.
func (s *Settler) NoteSilent(ctx context.Context, heads chain.Heads, known *store.Comparison) (int, bool) {
	return s.noteSilent(ctx, heads, known)
}

// Checks is checks.
type Checks = checks[bool]

// Join is checks.join.
func (c *checks[T]) Join(check func() T) T { return c.join(context.Background(), check) }
