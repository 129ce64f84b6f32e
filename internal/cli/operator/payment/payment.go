// Package payment has the commands that show, redact, export and restore payments.
package payment

import (
	"context"
	"fmt"

	"github.com/remit-payouts/remit/internal/cli/operator/change"
	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	"github.com/remit-payouts/remit/internal/cli/operator/dossier"
)

// Commands is `remit payment`.
type Commands struct {
	Show   paymentShow                   `cmd:"" help:"Show a payment in full." example:"pay_1"`
	Redact change.Command[paymentRedact] `cmd:"" help:"Erase a payment's reference and metadata." example:"pay_1"`
}

// A paymentName is how a person names a payment.
type paymentName struct {
	What     string `arg:"" help:"A transaction hash, a payment id (pay_…), or an Idempotency-Key."`
	Merchant string `help:"Merchant of the Idempotency-Key, mer_…"`
}

type paymentRedact struct{ paymentName }

// Change erases a payment's reference and metadata once its event is published: until then
// the event may be published again, with the same bytes. It is safe to repeat.
func (c paymentRedact) Change(ctx context.Context, d *deployed.Deployment) (none change.Change, err error) {
	p, err := dossier.Find(ctx, d, c.What, c.Merchant)
	if err != nil {
		return none, err
	}
	bare, err := p.Redacted()
	if err != nil {
		return none, err
	}
	switch now, err := dossier.Of(ctx, d, p); {
	case err != nil:
		return none, err
	case now.PendingTx:
		return none, fmt.Errorf("the outcome of %s is not published yet; try again in a minute", p.ID)
	}
	return change.Change{
		Consequences: fmt.Sprintf("The reference and the metadata of %s are erased. This cannot be undone. Amount, "+
			"recipient, Idempotency-Key and hashes stay: they keep it from being paid twice.\n"+
			"Copies stay with the merchant, in the log of its webhooks, whose messages keep the bytes that were signed, and in backups of "+
			"the tables.", p.ID),
		Apply: func(ctx context.Context) (change.Answer, error) {
			err := d.Payments.Redact(ctx, bare)
			return change.Answered(err, map[string]any{"id": p.ID, "redacted": true}, fmt.Sprint(p.ID, " has neither reference nor metadata"))
		},
	}, nil
}

type paymentShow struct {
	deployed.Target
	paymentName
}

// Run shows the dossier.
func (c *paymentShow) Run(ctx context.Context, d *deployed.Deployment) error {
	p, err := dossier.Find(ctx, d, c.What, c.Merchant)
	if err != nil {
		return err
	}
	dos, err := dossier.Of(ctx, d, p)
	if err != nil {
		return err
	}
	dos.AddChain(ctx, d, p)
	return d.Show(dos, dos.Text(p))
}
