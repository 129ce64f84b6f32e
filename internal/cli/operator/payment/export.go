package payment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// Export is `remit export`.
type Export struct {
	deployed.Target
	Merchant string    `help:"Only this merchant's, mer_…, newest first. Without it all, unordered."`
	Since    time.Time `format:"2006-01-02" placeholder:"DATE" help:"Only payments made on this day of UTC or later."`
	Until    time.Time `format:"2006-01-02" placeholder:"DATE" help:"Only payments made on this day of UTC or earlier."`
	CSV      bool      `name:"csv" help:"Write CSV in place of a line of JSON for each payment."`
}

// Run writes a row for each payment that is committed.
func (c *Export) Run(ctx context.Context, d *deployed.Deployment) error {
	end := c.Until
	if !end.IsZero() {
		if end = end.AddDate(0, 0, 1); c.Until.Before(c.Since) {
			return fmt.Errorf("--until %s is before --since; use a later day", c.Until.Format(time.DateOnly))
		}
	}
	out := deployed.Tame{Writer: d.Out}
	if c.CSV {
		if err := payment.CSV[Row](out, true); err != nil {
			return err
		}
	}
	written, unreadable, wallets := 0, 0, map[wallet.ID]wallet.Wallet{}
	lines := json.NewEncoder(out)
	lines.SetEscapeHTML(false)
	for p, err := range c.all(ctx, d, end) {
		switch {
		case errors.Is(err, store.ErrUnreadable):
			unreadable++
			continue
		case err != nil:
			return err
		case !p.State.Signed() || p.CreatedAt.Before(c.Since) || !end.IsZero() && !p.CreatedAt.Before(end):
			continue
		}
		row := RowOf(p)
		id := wallet.ID{ChainID: p.Tx.ChainID, Address: p.Wallet}
		if _, read := wallets[id]; !read && !p.State.Final() {
			wallets[id], _ = d.Payments.Wallet(ctx, id) // an unreadable wallet shows no progress
		}
		row.Progress = wallets[id].ProgressOf(p)
		if c.CSV {
			err = payment.CSV(out, false, row)
		} else {
			err = lines.Encode(row)
		}
		if written++; err != nil {
			return err
		}
	}
	if written+unreadable == 0 && c.Merchant != "" && c.Merchant != payment.Operator {
		_, err := d.KeysOf(ctx, c.Merchant)
		return err
	}
	if unreadable > 0 {
		return fmt.Errorf("%d stored payments cannot be read and are not in the export; find \"stored item cannot be "+
			"read\" in the log of check-receipts", unreadable)
	}
	return nil
}

func (c *Export) all(ctx context.Context, d *deployed.Deployment, end time.Time) iter.Seq2[payment.Payment, error] {
	return func(yield func(payment.Payment, error) bool) {
		if c.Merchant == "" {
			for entry, err := range d.Payments.Entries(ctx) {
				if entry.Noop.IsZero() && !yield(entry.Payment, err) {
					return
				}
			}
			return
		}
		f := store.Filter{Merchant: c.Merchant, Mode: d.Mode, Before: end}
		for more := true; more; {
			page, next, err := d.Payments.List(ctx, f)
			if err != nil {
				yield(payment.Payment{}, err)
				return
			}
			for _, p := range page {
				if p.CreatedAt.Before(c.Since) || !yield(p, nil) {
					return
				}
			}
			f.From, more = next, !next.IsZero()
		}
	}
}
