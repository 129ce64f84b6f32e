package payment

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/proposal"
	"github.com/remit-payouts/remit/internal/payments/store"
)

// Proposals is `remit proposals`.
type Proposals struct {
	deployed.Target
	Merchant string `arg:"" optional:"" help:"Whose, mer_…; without it, those of all merchants that will be released."`
	Status   string `enum:",awaiting_approval,scheduled,released,cancelled,expired" default:"" help:"Only those with this status."`
}

// Run lists a merchant's proposals, the newest first.
func (c *Proposals) Run(ctx context.Context, d *deployed.Deployment) error {
	if c.Merchant == "" {
		all, err := releases(ctx, d, token.Coin{})
		if err != nil {
			return err
		}
		return d.Show(all, releasing(all))
	}
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

// releases returns the proposals of an asset, zero for any, that a run would release now, or once they are due.
func releases(ctx context.Context, d *deployed.Deployment, asset token.Coin) (all []proposal.Public, err error) {
	due, err := d.Payments.Due(ctx, time.Now().Add(proposal.MaxAhead+proposal.MaxLife), math.MaxInt32)
	for _, named := range due {
		p, err := d.Payments.Proposal(ctx, named.ID)
		if err != nil {
			return nil, err
		}
		if state := p.Payment.State; !p.Waits() && !state.Signed() && !state.UsedUp() && (asset == token.Coin{} || p.Payment.Coin() == asset) {
			all = append(all, p.Public())
		}
	}
	return all, err
}

func releasing(all []proposal.Public) (text string) {
	for _, p := range all {
		text += fmt.Sprintf("  %s would be paid: %s %s, by %s\n", p.ID, p.Request.Amount, p.Request.Asset, p.CreatedBy)
	}
	return text
}
