// Package merchant has the commands that list, suspend and limit merchants.
package merchant

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/remit-payouts/remit/internal/cli/operator/change"
	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	"github.com/remit-payouts/remit/internal/cli/operator/setting"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
)

// Commands is `remit merchants`.
type Commands struct {
	List    merchantList                    `cmd:"" help:"List the merchants."`
	Suspend change.Command[merchantSuspend] `cmd:"" help:"Refuse a merchant's requests." example:"mer_1 --reason x"`
	Resume  change.Command[merchantResume]  `cmd:"" help:"End a suspension." example:"mer_1"`
	Limit   change.Command[merchantLimit]   `cmd:"" help:"Set or end its own limits." example:"mer_1 --max-amount 5"`
}

type merchantRow struct {
	ID       string         `json:"id"`
	Name     string         `json:"name"`
	LiveKeys int            `json:"live_keys"`
	LastUsed deployed.Stamp `json:"last_used_at"`
	apikey.Terms
}

const merchantLine = "%-22s %-30s %9v  %-20s  %-20s  %-20s  %s\n"

func (r merchantRow) String() string {
	state := "active"
	if r.Suspended != "" {
		state = "suspended: " + r.Suspended
	}
	line := fmt.Sprintf(merchantLine, r.ID, r.Name, r.LiveKeys, r.LastUsed, limit(r.Maximum), limit(r.Daily), state)
	for _, asset := range slices.Sorted(maps.Keys(r.Assets)) {
		line += fmt.Sprintf("  %-82s  %-20s  %s\n", asset, limit(r.Assets[asset].Maximum), limit(r.Assets[asset].Daily))
	}
	return line
}

func limit(a token.Amount) string {
	if a.IsZero() {
		return "the stack's"
	}
	return a.String()
}

var merchantHead = fmt.Sprintf(merchantLine, "ID", "NAME", "LIVE KEYS", "LAST USED", "MAXIMUM", "DAILY", "STATE")

func rowOf(ctx context.Context, store apikey.Store, keys []apikey.Key) (merchantRow, error) {
	row := merchantRow{ID: keys[0].MerchantID, Name: keys[0].MerchantName}
	for _, k := range keys {
		if k.Valid(time.Now()) {
			row.LiveKeys++
		}
		if k.LastUsedAt.After(time.Time(row.LastUsed)) {
			row.LastUsed = deployed.Stamp(k.LastUsedAt)
		}
	}
	var err error
	row.Terms, err = store.Terms(ctx, row.ID)
	return row, err
}

type merchantList struct{ deployed.Target }

func (c *merchantList) Run(ctx context.Context, d *deployed.Deployment) error {
	keys, err := d.Keys.All(ctx)
	if err != nil {
		return err
	}
	of := map[string][]apikey.Key{} // by merchant
	for _, k := range keys {
		of[k.MerchantID] = append(of[k.MerchantID], k)
	}
	rows, text := []merchantRow{}, merchantHead
	for _, id := range slices.Sorted(maps.Keys(of)) {
		row, err := rowOf(ctx, d.Keys, of[id])
		if err != nil {
			return err
		}
		rows, text = append(rows, row), text+row.String()
	}
	return d.Show(rows, text)
}

type merchantArg struct {
	Merchant string `arg:"" help:"The merchant's id, mer_…"`
}

// change gives the merchant other terms: to changes them, and returns the consequences.
func (c merchantArg) change(ctx context.Context, d *deployed.Deployment, did string,
	to func(*apikey.Terms) (text, loosens string)) (change.Change, error) {
	keys, err := d.KeysOf(ctx, c.Merchant)
	if err != nil {
		return change.Change{}, err
	}
	row, err := rowOf(ctx, d.Keys, keys)
	terms := row.Terms
	text, loosens := to(&terms)
	return change.Change{
		Consequences: fmt.Sprintf("Merchant %s (%s) in stack %s, at the latest %s seconds from now: %s", row.ID,
			row.Name, d.Stack, d.KeyCache, text),
		Apply: func(ctx context.Context) (change.Answer, error) {
			err := d.Keys.SetTerms(ctx, c.Merchant, row.Terms, terms)
			if !errors.Is(err, apikey.ErrTerms) && !errors.Is(err, apikey.ErrAssetTerms) { // stored, or nobody knows
				err = errors.Join(err, setting.Announce(ctx, d, loosens, "limits of merchant "+c.Merchant))
			}
			if err != nil {
				return change.Answer{}, err
			}
			row, err := rowOf(ctx, d.Keys, keys)
			return change.Answered(err, row, merchantHead+row.String()+did)
		},
	}, err
}

type merchantSuspend struct {
	merchantArg
	Reason string `required:"" help:"Why; shown in lists and in the audit log, and not to the merchant."`
}

func (c merchantSuspend) Change(ctx context.Context, d *deployed.Deployment) (change.Change, error) {
	return c.change(ctx, d, "suspended", func(t *apikey.Terms) (text, loosens string) {
		t.Suspended = c.Reason
		return "every payment and change is refused with 403, and it may read; committed payments still settle.", ""
	})
}

type merchantResume struct{ merchantArg }

func (c merchantResume) Change(ctx context.Context, d *deployed.Deployment) (change.Change, error) {
	return c.change(ctx, d, "active", func(t *apikey.Terms) (text, loosens string) {
		t.Suspended = ""
		return "requests are answered again.", ""
	})
}

type merchantLimit struct {
	merchantArg
	Asset       string        `help:"Of which asset: usdc@base or eip155:…; absent: the default."`
	MaxAmount   *token.Amount `help:"Largest payment, in the token's smallest unit; 0 for the stack's."`
	DailyAmount *token.Amount `help:"Most in a UTC day, counted once there is a limit; 0 for the stack's."`
}

// Change keeps a limit that no flag names.
func (c merchantLimit) Change(ctx context.Context, d *deployed.Deployment) (none change.Change, err error) {
	on, err := d.Named(ctx, c.Asset)
	if err != nil {
		return none, err
	}
	var refused error
	made, err := c.change(ctx, d, "done", func(t *apikey.Terms) (text, loosens string) {
		own, was, is := t.Of(on.TermsAsset()), on.On.Settings, on.On.Settings
		was.Maximum, was.Daily = cmp.Or(own.Maximum, was.Maximum), cmp.Or(own.Daily, was.Daily)
		own.Maximum, own.Daily = *cmp.Or(c.MaxAmount, &own.Maximum), *cmp.Or(c.DailyAmount, &own.Daily)
		if !own.Daily.IsZero() && own.Daily.Less(own.Maximum) {
			refused = fmt.Errorf("--daily-amount %s would be below --max-amount %s; give both", own.Daily, own.Maximum)
		}
		is.Maximum, is.Daily = cmp.Or(own.Maximum, is.Maximum), cmp.Or(own.Daily, is.Daily)
		text, loosens = setting.Of(on).Describe(was, is)
		*t = t.With(on.TermsAsset(), own)
		return fmt.Sprintf("%sthe largest payment of %s is %s, a day's sum %s, in units of %s.", text, on.Name(),
			limit(own.Maximum), limit(own.Daily), on.Coins(token.Units(1))), loosens
	})
	return made, cmp.Or(err, refused)
}
