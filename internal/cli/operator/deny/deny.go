// Package deny has the commands that block recipients.
package deny

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/remit-payouts/remit/internal/cli/operator/change"
	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/store"
)

// Commands is `remit deny`.
type Commands struct {
	Add    change.Command[add]    `cmd:"" help:"Refuse payments to a recipient." example:"0x2… --reason stolen"`
	Remove change.Command[remove] `cmd:"" help:"Allow payments again." example:"0x2…"`
	List   list                   `cmd:"" help:"List the blocked recipients."`
}

type add struct {
	Address token.Address `arg:"" help:"The recipient."`
	Reason  string        `required:"" help:"Why; shown in the list only, never to merchants."`
}

func (c add) Change(ctx context.Context, d *deployed.Deployment) (change.Change, error) {
	rules, err := d.Payments.Rules(ctx)
	text := fmt.Sprintf("Remit refuses new payments to %s within 30 seconds. Committed ones are still made.", c.Address)
	for _, no := range rules.Denied {
		if no.To == c.Address {
			text = fmt.Sprintf("%s is on the list already, for %q. This replaces the reason.", c.Address, no.Reason)
		}
	}
	return change.Write(text, fmt.Sprint(c.Address, " is not paid"), func(ctx context.Context) error {
		err := d.Payments.Deny(ctx, store.Denial{To: c.Address, Reason: c.Reason, At: time.Now()})
		if errors.Is(err, store.ErrTooLarge) {
			err = fmt.Errorf("%w; shorten the reason, remove others (remit deny list), or name a contract with a "+
				"long list (remit settings set SanctionsList=0x…)", err)
		}
		return err
	}), err
}

type remove struct {
	Address token.Address `arg:"" help:"The recipient."`
}

func (c remove) Change(ctx context.Context, d *deployed.Deployment) (change.Change, error) {
	rules, err := d.Payments.Rules(ctx)
	if err == nil && !slices.ContainsFunc(rules.Denied, func(no store.Denial) bool { return no.To == c.Address }) {
		err = fmt.Errorf("%s is not on the list; see remit deny list", c.Address)
	}
	return change.Write(fmt.Sprintf("Payments to %s are made again, at the latest 30 seconds after.", c.Address),
		fmt.Sprint(c.Address, " may be paid"),
		func(ctx context.Context) error { return d.Payments.Allow(ctx, c.Address) }), err
}

type list struct{ deployed.Target }

func (c *list) Run(ctx context.Context, d *deployed.Deployment) error {
	rules, err := d.Payments.Rules(ctx)
	if err != nil {
		return err
	}
	rows, text := []map[string]any{}, ""
	for _, denial := range rules.Denied {
		at := deployed.Stamp(denial.At)
		rows = append(rows, map[string]any{"address": denial.To, "reason": denial.Reason, "created_at": at})
		text += fmt.Sprintf("%s  %s  %s\n", denial.To, at, denial.Reason)
	}
	return d.Show(rows, text)
}
