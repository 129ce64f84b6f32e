// Package payment has the commands that show, redact, export and restore payments.
package payment

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/remit-payouts/remit/internal/cli/operator/change"
	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/payments/payment"
)

// Commands is `remit payment`.
type Commands struct {
	Show   show                   `cmd:"" help:"Show a payment in full." example:"pay_1"`
	Redact change.Command[redact] `cmd:"" help:"Erase a payment's reference and metadata." example:"pay_1"`
}

// A name is how a person names a payment.
type name struct {
	What     string `arg:"" help:"A transaction hash, a payment id (pay_…), or an Idempotency-Key."`
	Merchant string `help:"Merchant of the Idempotency-Key, mer_…"`
}

// find returns the payment, and its data in the tables.
func (c name) find(ctx context.Context, d *deployed.Deployment) (p payment.Payment, dos Dossier, err error) {
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
		"tables.", p.ID), map[string]any{"id": p.ID, "redacted": true}, fmt.Sprint(p.ID, " has neither reference nor "+
		"metadata"), func(ctx context.Context) error { return d.Payments.Redact(ctx, bare) }), nil
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
	return d.Show(dos, dos.Text(p))
}
