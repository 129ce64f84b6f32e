package payment

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	"github.com/remit-payouts/remit/internal/payments/proposal"
	"github.com/remit-payouts/remit/internal/payments/store"
)

// Proposals is `remit proposals`.
type Proposals struct {
	deployed.Target
	Merchant string `arg:"" help:"Whose, mer_…"`
	Status   string `enum:",awaiting_approval,scheduled,released,cancelled,expired" default:"" help:"Only those with this status."`
}

// Run lists a merchant's proposals, the newest first.
func (c *Proposals) Run(ctx context.Context, d *deployed.Deployment) error {
	all, text := []proposal.Public{}, strings.Builder{}
	f := store.ProposalFilter{Merchant: c.Merchant, Mode: d.Mode, Status: c.Status}
	for more := true; more; {
		page, next, err := d.Payments.ListProposals(ctx, f)
		if err != nil {
			return err
		}
		for _, p := range page {
			v := p.Public()
			all = append(all, v)
			due, why := p.DueAt().UTC().Format(time.DateTime), ""
			if r := v.Refusal; r != nil && v.Status == proposal.StatusScheduled {
				why = "  " + r.Code
			}
			fmt.Fprintf(&text, "%s  %-17s  %s  %s %s  by %s%s\n", v.ID, v.Status, due, p.Payment.Amount.Tokens(p.Payment.Token.Decimals),
				p.Payment.Token.Symbol, v.CreatedBy, why)
		}
		f.From, more = next, !next.IsZero()
	}
	return d.Show(all, text.String())
}
