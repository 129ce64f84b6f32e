package change

import (
	"context"
	"fmt"
	"time"

	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	"github.com/remit-payouts/remit/internal/payments/store"
)

// Log is `remit audit-log`.
type Log struct {
	deployed.Target
	Since time.Duration `default:"720h" help:"How far back."`
}

// Run lists the commands since a time, oldest first, each with its outcome. Without an end
// it is unknown: the command was cut off, or is still running.
func (c *Log) Run(ctx context.Context, d *deployed.Deployment) error {
	entries, err := d.AuditLog.Acts(ctx, time.Now().Add(-c.Since))
	if err != nil {
		return err
	}
	type row struct {
		At      deployed.Stamp `json:"at"`
		Who     string         `json:"who"`
		Command string         `json:"command"`
		Effect  string         `json:"agreed_to"`
		Outcome store.Outcome  `json:"outcome"`
		Error   string         `json:"error,omitempty"`
	}
	rows, text := []row{}, ""
	for i, e := range entries {
		if e.Outcome != store.Begun {
			continue
		}
		r := row{At: deployed.Stamp(e.At), Who: e.Who, Command: e.Command, Effect: e.Effect, Outcome: store.Unknown}
		for _, end := range entries[i:] {
			if end.ID == e.ID && end.Outcome != store.Begun {
				r.Outcome, r.Error = end.Outcome, end.Effect
			}
		}
		rows, text = append(rows, r), text+fmt.Sprintf("%s  %-8s  %s  remit %s\n", r.At, r.Outcome, r.Who, r.Command)
	}
	if len(rows) == 0 {
		text = fmt.Sprintf("no change by an operator in the last %s; look further back with --since\n", c.Since)
	}
	return d.Show(rows, text)
}
