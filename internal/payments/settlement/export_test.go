package settlement

import (
	"context"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/payments/store"
)

// Add counts another wallet of the same round in.
func (r *Report) Add(o Report) { r.add(o) }

// Next counts a later round in.
func (r *Report) Next(round Report) { r.next(round) }

// Listen is Settler.listen.
func (s *Settler) Listen(ctx context.Context, heads chain.Heads, known *store.Comparison) (int, bool) {
	return s.listen(ctx, heads, known)
}
