// Package deny has the commands that block recipients.
package deny

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/remit-payouts/remit/internal/cli/operator/change"
	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/store"
)

// Commands is `remit deny`.
type Commands struct {
	Add    change.Command[denyAdd]    `cmd:"" help:"Refuse payments to a recipient." example:"0x2… --reason stolen"`
	Remove change.Command[denyRemove] `cmd:"" help:"Allow payments again." example:"0x2…"`
	List   denyList                   `cmd:"" help:"List the blocked recipients."`
}

type denyAdd struct {
	Address token.Address `arg:"" help:"The recipient."`
	Reason  string        `required:"" help:"Why; shown in the list only, never to merchants."`
}

// Change blocks a recipient.
func (c denyAdd) Change(_ context.Context, d *deployed.Deployment) (change.Change, error) {
	if c.Reason == "" || c.Address.IsZero() {
		return change.Change{}, errors.New("give the recipient's address, and with --reason why it is not paid")
	}
	return change.Change{
		Consequences: fmt.Sprintf("Remit refuses new payments to %s within 30 seconds. Committed payments are still "+
			"made.", c.Address),
		Apply: func(ctx context.Context) (change.Answer, error) {
			err := d.Payments.Deny(ctx, store.Denial{To: c.Address, Reason: c.Reason, At: time.Now()})
			if errors.Is(err, store.ErrTooLarge) {
				err = fmt.Errorf("%w; shorten the reason, remove others (remit deny list), or name a contract with a long list (remit "+
					"settings set SanctionsList=0x…)", err)
			}
			return change.Answered(err, map[string]any{"address": c.Address, "reason": c.Reason}, fmt.Sprint(c.Address, " is not paid"))
		},
	}, nil
}

type denyRemove struct {
	Address token.Address `arg:"" help:"The recipient."`
}

// Change takes a recipient off the list.
func (c denyRemove) Change(_ context.Context, d *deployed.Deployment) (change.Change, error) {
	return change.Change{
		Consequences: fmt.Sprintf("Payments to %s are made again, at the latest 30 seconds after.", c.Address),
		Apply: func(ctx context.Context) (change.Answer, error) {
			err := d.Payments.Allow(ctx, c.Address)
			return change.Answered(err, map[string]any{"address": c.Address, "removed": true}, fmt.Sprint(c.Address, " may be paid"))
		},
	}, nil
}

type denyList struct{ deployed.Target }

// Run shows the list.
func (c *denyList) Run(ctx context.Context, d *deployed.Deployment) error {
	rules, err := d.Payments.Rules(ctx)
	if err != nil {
		return err
	}
	rows, b := []map[string]any{}, strings.Builder{}
	for _, denial := range rules.Denied {
		at := deployed.Stamp(denial.At)
		rows = append(rows, map[string]any{"address": denial.To, "reason": denial.Reason, "created_at": at})
		fmt.Fprintf(&b, "%s  %s  %s\n", denial.To, at, denial.Reason)
	}
	return d.Show(rows, b.String())
}
