// Package payment has the commands that show, redact, export and restore payments.
package payment

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/remit-payouts/remit/internal/cli/operator/change"
	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/proposal"
	"github.com/remit-payouts/remit/internal/payments/store"
)

// Commands is `remit payment`.
type Commands struct {
	Show   show                   `cmd:"" help:"Show a payment in full, as JSON." example:"pay_1"`
	Redact change.Command[redact] `cmd:"" help:"Erase a payment's reference and metadata." example:"pay_1"`
}

// A name is how a person names a payment.
type name struct {
	What     string `arg:"" help:"A transaction hash, a payment id (pay_…), or an Idempotency-Key."`
	Merchant string `help:"Merchant of the Idempotency-Key, mer_…"`
}

// find returns the payment, and its data in the tables.
func (c name) find(ctx context.Context, d *deployed.Deployment) (p payment.Payment, dos dossier, err error) {
	hash, notHash := chain.ParseHash(c.What)
	switch {
	case strings.HasPrefix(c.What, "pay_"):
		p, err = d.Payments.Payment(ctx, payment.ID(c.What))
	case notHash == nil:
		p, err = d.Payments.PaymentByHash(ctx, hash)
	case c.Merchant == "" && strings.HasPrefix(c.What, "0x"):
		err = fmt.Errorf("%s is not a transaction hash; use 0x and 64 hex digits", c.What)
	case c.Merchant == "":
		err = errors.New("an Idempotency-Key belongs to a merchant; add --merchant mer_…")
	default:
		p, err = d.Payments.Payment(ctx, payment.KeyID(c.Merchant, d.Mode, c.What))
	}
	if err == nil {
		dos, err = of(ctx, d, p)
	}
	return p, dos, err
}

type redact struct{ name }

// Change erases a payment's reference and metadata once its event is published: until then
// the event may be published again, with the same bytes. It is safe to repeat.
func (c redact) Change(ctx context.Context, d *deployed.Deployment) (none change.Change, err error) {
	p, dos, err := c.find(ctx, d)
	if err != nil {
		return none, err
	}
	bare, err := p.Redacted()
	if err != nil {
		return none, err
	}
	if dos.PendingTx {
		return none, fmt.Errorf("the outcome of %s is not published yet; try again in a minute", p.ID)
	}
	return change.Write(fmt.Sprintf("The reference and the metadata of %s are erased. This cannot be undone. Amount, "+
		"recipient, Idempotency-Key and hashes stay: they keep it from being paid twice.\nCopies stay with the "+
		"merchant, in the log of its webhooks, whose messages keep the bytes that were signed, and in backups of the "+
		"tables.", p.ID), fmt.Sprint(p.ID, " has neither reference nor metadata"), func(ctx context.Context) error {
		return d.Payments.Redact(ctx, bare)
	}), nil
}

type show struct {
	deployed.Target
	name
}

func (c *show) Run(ctx context.Context, d *deployed.Deployment) error {
	p, dos, err := c.find(ctx, d)
	if err != nil {
		return err
	}
	dos.addChain(ctx, d, p)
	d.JSON = true
	return d.Show(dos, "")
}

// Proposals is `remit proposals`.
type Proposals struct {
	deployed.Target
	Merchant string `arg:"" optional:"" help:"Whose, mer_…; without it, all that will be released."`
}

// Run lists a merchant's proposals, the newest first.
func (c *Proposals) Run(ctx context.Context, d *deployed.Deployment) error {
	if c.Merchant == "" {
		rows, text, err := releases(ctx, d, token.Coin{})
		if err != nil {
			return err
		}
		return d.Show(rows, text)
	}
	var all []proposal.Proposal
	f := store.ProposalFilter{Merchant: c.Merchant, Mode: d.Mode}
	for more := true; more; {
		page, next, err := d.Payments.ListProposals(ctx, f)
		if err != nil {
			return err
		}
		all = append(all, page...)
		f.From, more = next, !next.IsZero()
	}
	return d.Show(listed(all))
}

// listed returns proposals as --json shows them, and a line of text for each.
func listed(all []proposal.Proposal) (rows []proposal.Public, text string) {
	rows = []proposal.Public{}
	for _, p := range all {
		v, why := p.Public(), ""
		if r := v.Refusal; r != nil && v.Status == proposal.StatusScheduled {
			why = "  " + r.Code
		}
		rows, text = append(rows, v), text+fmt.Sprintf("%s  %-17s  %s  %s %s  by %s%s\n", v.ID, v.Status,
			p.DueAt().UTC().Format(time.DateTime), p.Payment.Amount.Tokens(p.Payment.Token.Decimals), p.Payment.Token.Symbol, v.CreatedBy, why)
	}
	return rows, text
}

// releases lists the proposals of an asset, zero for any, that a run would release now, or once they are due.
func releases(ctx context.Context, d *deployed.Deployment, asset token.Coin) (rows []proposal.Public, text string, err error) {
	var all []proposal.Proposal
	due, err := d.Payments.Due(ctx, time.Now().Add(proposal.MaxAhead+proposal.MaxLife), math.MaxInt32)
	for _, named := range due {
		p, err := d.Payments.Proposal(ctx, named.ID)
		if err != nil {
			return nil, "", err
		}
		if state := p.Payment.State; !p.Waits() && !state.Signed() && !state.UsedUp() && (asset == token.Coin{} || p.Payment.Coin() == asset) {
			all = append(all, p)
		}
	}
	rows, text = listed(all)
	return rows, text, err
}
