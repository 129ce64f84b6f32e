package operator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"remit/internal/store"
	"remit/internal/token"
)

// Deny is `remit deny`.
type Deny struct {
	Add    denyAdd    `cmd:"" help:"Pay this recipient no more."`
	Remove denyRemove `cmd:"" help:"Let payments go to it again."`
	List   denyList   `cmd:"" help:"Show every recipient that is not paid."`
}

type denyAdd struct {
	Target
	Address token.Address `arg:"" help:"The recipient."`
	Reason  string        `required:"" help:"Why; shown in the list only, never to merchants."`
	Yes     bool          `help:"Do not ask."`
}

// Run denies a recipient.
func (c *denyAdd) Run(ctx context.Context, d *deployment) error {
	if c.Reason == "" || c.Address.IsZero() {
		return errors.New("say the recipient's address, and with --reason why it is not paid")
	}
	s, err := d.payments()
	if err != nil {
		return err
	}
	if err := d.agree(c.Yes, fmt.Sprintf("New payments to %s are refused from now on, at the latest 30 seconds after. What is "+
		"committed is still paid.", c.Address)); err != nil {
		return err
	}
	err = s.Deny(ctx, store.Denial{To: c.Address, Reason: c.Reason, At: time.Now()})
	if errors.Is(err, store.ErrTooLarge) {
		return fmt.Errorf("%w; shorten the reason, remove others (remit deny list), or name a contract with a long list (remit "+
			"settings set SanctionsList=0x…)", err)
	}
	if err != nil {
		return err
	}
	return d.show(map[string]any{"address": c.Address, "reason": c.Reason}, fmt.Sprint(c.Address, " is not paid"))
}

type denyRemove struct {
	Target
	Address token.Address `arg:"" help:"The recipient."`
	Yes     bool          `help:"Do not ask."`
}

// Run takes a recipient off the list.
func (c *denyRemove) Run(ctx context.Context, d *deployment) error {
	s, err := d.payments()
	if err != nil {
		return err
	}
	if err := d.agree(c.Yes, fmt.Sprintf("Payments to %s are made again, at the latest 30 seconds after.", c.Address)); err != nil {
		return err
	}
	if err := s.Allow(ctx, c.Address); err != nil {
		return err
	}
	return d.show(map[string]any{"address": c.Address, "removed": true}, fmt.Sprint(c.Address, " may be paid"))
}

type denyList struct{ Target }

// Run shows the list.
func (c *denyList) Run(ctx context.Context, d *deployment) error {
	s, err := d.payments()
	if err != nil {
		return err
	}
	all, err := s.Denied(ctx)
	if err != nil {
		return err
	}
	rows, b := []map[string]any{}, strings.Builder{}
	for _, denial := range all {
		rows = append(rows, map[string]any{"address": denial.To, "reason": denial.Reason, "created_at": stamp(denial.At)})
		fmt.Fprintf(&b, "%s  %s  %s\n", denial.To, stamp(denial.At), denial.Reason)
	}
	return d.show(rows, b.String())
}
