package setting

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/remit-payouts/remit/internal/cli/operator/change"
	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	"github.com/remit-payouts/remit/internal/evm/settings"
)

type confirm struct{}

// Change confirms the settings that it has shown, and no others.
func (confirm) Change(ctx context.Context, d *deployed.Deployment) (none change.Change, err error) {
	tables, err := Read(ctx, d)
	if err != nil {
		return none, err
	}
	var unconfirmed []Table
	for _, t := range tables {
		if t.Unusable() != nil {
			return none, fmt.Errorf("settings of %s: %w", t.Kind(), t.Unusable())
		}
		if !t.Stamp().Confirmed {
			unconfirmed = append(unconfirmed, t)
		}
	}
	return write(d, unconfirmed, true, "confirmed")
}

type importing struct{}

// Change stores the first version of each table that has none, from the deployed parameters.
func (importing) Change(ctx context.Context, d *deployed.Deployment) (none change.Change, err error) {
	if d.Account == nil {
		return none, errors.New("remit local takes its first settings from its flags; change them with remit settings set")
	}
	tables, err := Read(ctx, d)
	if err != nil {
		return none, err
	}
	var first []Table
	for _, t := range tables {
		if !errors.Is(t.Unusable(), settings.ErrMissing) {
			continue
		}
		for _, s := range t.Values() {
			value, there := d.Account.Parameters[s.Name]
			n, _ := strconv.Atoi(value)
			switch {
			case !there:
				return none, fmt.Errorf("stack %s has no parameter %s: import before you deploy the new template, or write all of them (remit "+
					"settings apply)", d.Stack, s.Name)
			case s.Name == "RecipientHoldSeconds" && value == "":
				value = s.Value // the default of the mode, as the older version has it
			case s.Name == "NonceWindow" && n > settings.MaxWindow:
				return none, fmt.Errorf("nothing was changed: NonceWindow is %d, and remit recover covers windows up to %d; deploy the version "+
					"that runs with NonceWindow=%[2]d, "+
					"wait until no wallet has more in flight (remit wallet list), and import again", n, settings.MaxWindow)
			}
			if _, err := t.Next(s.Name, value); err != nil {
				return none, fmt.Errorf("nothing was changed: the parameter %w", err)
			}
		}
		first = append(first, t)
	}
	if len(first) == 0 {
		return none, errors.New("nothing was changed: the settings are stored already; read them with remit settings show")
	}
	return write(d, first, true, "imported from the stack's parameters")
}

type export struct{ deployed.Target }

// Run prints the settings as parameters.
func (c *export) Run(ctx context.Context, d *deployed.Deployment) error {
	tables, err := Read(ctx, d)
	if err != nil {
		return err
	}
	values, pairs := map[string]string{}, []string{}
	for _, t := range tables {
		if t.Unusable() != nil {
			return fmt.Errorf("settings of %s: %w", t.Kind(), t.Unusable())
		}
		for _, s := range t.Values() {
			values[s.Name] = s.Value
			pairs = append(pairs, s.Name+"="+cmp.Or(s.Value, `""`))
		}
	}
	return d.Show(values, strings.Join(pairs, " "))
}
