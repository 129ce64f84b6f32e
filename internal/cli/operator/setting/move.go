package setting

import (
	"context"
	"fmt"

	"github.com/remit-payouts/remit/internal/cli/operator/change"
	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
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
