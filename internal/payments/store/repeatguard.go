package store

import (
	"time"

	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/proposal"
)

// A Guard names the similar payments of a merchant's guarded keys (payment.Request.GuardID). A payment that it names
// may have been discarded since.
type Guard struct {
	ID       string
	Payments []payment.ID // newest last; before one that was confirmed, none
	Version  uint64       // rises with each payment; 0: none is stored
}

// GuardKept is how long after its newest payment a store keeps a guard, at least: longer than any key's guard and,
// beyond it, the life of a proposal, whose release looks back from the time at which it was due first.
const GuardKept = 8*24*time.Hour + proposal.MaxLife

// With returns the guard to store with a further payment. The first Version is a time, so that a guard that was
// removed after GuardKept does not come again.
func (g Guard) With(p payment.Payment) Guard {
	g.Version = max(g.Version+1, uint64(p.CreatedAt.UnixMilli()))
	g.Payments = append(g.Payments[:len(g.Payments):len(g.Payments)], p.ID)
	return g
}
