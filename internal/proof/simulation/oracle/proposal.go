package oracle

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/proposal"
)

// Proposed notes a proposal that was stored: its key's payment is its release, or nothing.
func (o *Oracle) Proposed(id payment.ID) { o.proposed[id] = true }

// Begun checks a release that was begun for p. active reports that its run found the merchant active.
func (o *Oracle) Begun(p proposal.Proposal, active bool) {
	why := ""
	switch {
	case p.Required && p.Approver.Key == "":
		why = "without its approval"
	case p.Approver.Key != "" && p.Approver.Root == p.By.Root:
		why = "with the approval of its own key"
	case time.Now().Add(o.Skew).Before(p.NotBefore):
		why = "before its time"
	case !active:
		why = "for a merchant that its run did not find active"
	default:
		return
	}
	o.Violate(ProposalsHold, "the release of %s was begun %s", p.Payment.ID, why)
}

// Releasing checks an actor that asks for a nonce of a payment.
func (o *Oracle) Releasing(id payment.ID, actor string) {
	switch p, err := o.Store.Proposal(context.Background(), id); {
	case err != nil || !p.Payment.Proposal:
	case !strings.HasPrefix(actor, "release"):
		o.Violate(ProposalsHold, "%s asks for a nonce of %s, which a proposal holds", actor, id)
	case time.Now().Add(-o.Skew).After(p.ExpiresAt()):
		o.Violate(ProposalsHold, "%s asks for a nonce of %s after its expiry", actor, id)
	}
}

// Committed checks a payment whose bytes are stored.
func (o *Oracle) Committed(p payment.Payment) {
	if o.proposed[p.ID] && !p.Proposal {
		o.Violate(ProposalsHold, "%s is made beside its proposal", p.ID)
	}
}

// Cancelled notes the answer that an order's proposal has ended.
func (o *Oracle) Cancelled(r Order) {
	o.mu.Lock()
	o.cancelled = append(o.cancelled, r)
	o.mu.Unlock()
	o.checkCancelled()
}

// checkCancelled checks that the keys of proposals are used up that were answered to have ended.
func (o *Oracle) checkCancelled() {
	o.mu.Lock()
	cancelled := slices.Clone(o.cancelled)
	o.mu.Unlock()
	for _, r := range cancelled {
		if p, err := o.Store.Payment(context.Background(), r.ID()); err == nil && !p.State.UsedUp() {
			o.Violate(ProposalsHold, "%s was answered to have ended and is %s", r.Key, p.State)
		}
	}
}
