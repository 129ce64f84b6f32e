package payment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/remit-payouts/remit/internal/cli/operator/change"
	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/proposal"
	"github.com/remit-payouts/remit/internal/payments/recovery"
	"github.com/remit-payouts/remit/internal/payments/settlement"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// Recovering is the command line of `remit recover`.
type Recovering struct {
	Since  deployed.Moment `placeholder:"BLOCK|TIME" help:"First block or time of lost payments; 0: the whole chain."`
	Window uint64          `placeholder:"N" help:"Nonces that may be signed: at least 128, and twice NonceWindow."`
	Wallet []token.Address `help:"A wallet in no table, or without a key since its last payment; may be repeated."`
	DryRun bool            `help:"Show the necessary steps, and change nothing."`
	Resume bool            `help:"Resume the wallets, if every transfer on every rail belongs to a payment."`
}

type recovered struct {
	Rail    string `json:"rail"`
	Wallets int    `json:"wallets"`
	recovery.Report
	DryRun  bool `json:"dry_run"`
	Resumed bool `json:"resumed"`

	Releases []proposal.Public `json:"proposals_to_release"`
	releases string
}

type recovering struct {
	*recovery.Recovery
	on   *deployed.Deployment
	runs bool // not only holds the rail's wallets
	ids  []wallet.ID
	recovered
}

// Change recovers. It reports progress on standard error.
func (c Recovering) Change(ctx context.Context, d *deployed.Deployment) (none change.Change, err error) {
	stack := *d
	stack.Rail = ""
	rails, err := stack.Rails(ctx)
	chosen, unread := d.Rails(ctx)
	if err = cmp.Or(err, unread); err == nil && len(chosen) > 1 && (len(c.Wallet) > 0 || c.Since.Block > 0) {
		err = errors.New("a wallet and a block are of one rail; choose it with --rail, or give a time")
	}
	if err != nil {
		return none, err
	}
	keyed, err := d.Keyed(ctx)
	for a, key := range keyed {
		if stack.Rail = key.Rail; !slices.ContainsFunc(rails, stack.Names) {
			err = errors.Join(err, fmt.Errorf("wallet %s is of %s, which is no rail yet; add it with remit rails add",
				a, key.Rail))
		}
	}
	if err != nil {
		return none, err
	}
	var all []*recovering
	text := ""
	for _, on := range rails {
		r := &recovering{on: on, runs: d.Names(on)}
		if r.Recovery, err = c.recovery(ctx, on, r.runs); err != nil {
			return none, fmt.Errorf("%s: %w", on.Name(), err)
		}
		if all = append(all, r); r.runs {
			text += fmt.Sprintf("From each wallet of %s, up to %d transactions that move nothing use up the nonces "+
				"that lost transactions may have.\n", on.Name(), r.Window)
		}
	}
	if c.DryRun {
		none.Answer, err = c.run(ctx, all)
		return none, err
	}
	return change.Change{
		Consequences: fmt.Sprintf("Every wallet of stack %s is paused.\n%sPayments that only the chain has are put "+
			"into the tables. remit recover --dry-run counts them.", d.Stack, text),
		Apply: func(ctx context.Context) (change.Answer, error) { return c.run(ctx, all) },
	}, nil
}

// run holds every rail before it runs any, and resumes none before all have run: a key may be used on each.
func (c Recovering) run(ctx context.Context, all []*recovering) (none change.Answer, err error) {
	for _, r := range all {
		if r.ids, err = r.Hold(ctx); err != nil {
			return none, err
		}
		if err := c.unconfirm(ctx, r.on); err != nil {
			return none, fmt.Errorf("ending the confirmation of the settings: %w", err)
		}
	}
	clean, differ := true, false
	for _, r := range all {
		if !r.runs {
			continue
		}
		done, err := r.Run(ctx, r.ids)
		due, unread := releases(ctx, r.on, r.on.Config.Coin())
		if err = cmp.Or(err, unread); err != nil {
			return none, fmt.Errorf("%s: %w; run remit recover again, which continues", r.on.Name(), err)
		}
		r.recovered = recovered{Rail: r.on.Name(), Wallets: len(r.ids), Report: done, DryRun: c.DryRun}
		r.Releases, r.releases = listed(due)
		clean, differ = clean && len(done.Foreign)+len(done.Differ) == 0, differ || len(done.Differ) > 0
	}
	reports, text := []recovered{}, ""
	for _, r := range all {
		if !r.runs {
			text += fmt.Sprintf("%s: left out; a run pauses its wallets until it is recovered too\n", r.on.Name())
			continue
		}
		if !c.DryRun {
			r.Resumed = c.Resume && clean
			if err := r.End(ctx, r.ids, r.Resumed); err != nil {
				return none, err
			}
		}
		reports, text = append(reports, r.recovered), text+r.text(r.on)
	}
	if differ && !c.DryRun {
		err = errors.New("wallets stay paused, since tables and chain differ: the chain has paid the payments above, " +
			"also one that reads failed; tell their merchants not to pay again, then run remit wallet resume --all")
	}
	return change.Answer{JSON: reports, Text: text}, err
}

// unconfirm ends the confirmation of settings that may predate the loss: live payments wait until an operator confirms.
func (c Recovering) unconfirm(ctx context.Context, d *deployed.Deployment) error {
	rules, err := d.Payments.Rules(ctx)
	rail := rules.Rail(d.Config.Coin())
	if s := rail.Settings; err == nil && !c.DryRun && rail.Unusable == nil && s.Confirmed {
		s.Confirmed, s.At, s.Who, s.Why = false, time.Now(), change.By(ctx), "remit recover"
		return d.Payments.SetSettings(ctx, s)
	}
	return err
}

// recovery wires the parts as check-receipts does; without nodes if it only holds.
func (c Recovering) recovery(ctx context.Context, d *deployed.Deployment, runs bool) (*recovery.Recovery, error) {
	stored, err := d.Stored(ctx)
	if err != nil {
		return nil, err
	}
	of := fmt.Sprintf("%s on chain %d: %s", d.Name(), d.ChainID, map[bool]string{true: "dry run: "}[c.DryRun])
	r := &recovery.Recovery{Config: d.Config, Store: d.Payments, Now: time.Now, Wait: settlement.Sleep,
		Say:   func(format string, args ...any) { fmt.Fprintf(os.Stderr, of+format+"\n", args...) },
		Keyed: slices.Collect(maps.Keys(stored)), DryRun: c.DryRun}
	if !runs {
		return r, nil
	}
	nodes, err := d.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	final, err := nodes.FinalOnAll(ctx, d.Config.ConfirmationRule)
	if err != nil {
		return nil, fmt.Errorf("every configured node must answer: %w", err)
	}
	since, err := c.Since.First(ctx, nodes, final)
	if err != nil {
		return nil, err
	} else if since > final+1 {
		return nil, fmt.Errorf("--since %d is beyond block %d, the last final one; name an earlier block", since, final)
	}
	keys := d.WalletKeys()
	settler := settlement.New(d.Config, settlement.Parts{Store: d.Payments, Keys: keys, Nodes: nodes,
		Events: d.Publisher(), Log: slog.Default(), Now: time.Now})
	r.Keys, r.Nodes, r.Wallets = keys, nodes, c.Wallet
	r.Settle = func(ctx context.Context) error {
		_, err := settler.Round(ctx, "recover", true)
		return err
	}
	r.Window, r.Since = max(c.Window, 2*max(settings.MaxWindow, d.Config.Own.Window)), min(since, final)
	return r, nil
}

func (r recovered) text(d *deployed.Deployment) string {
	var b strings.Builder
	do := map[bool][]any{true: {"to use", "to put"}, false: {"used", "put"}}[r.DryRun]
	fmt.Fprintf(&b, "%s: wallets %d; nonces %s up: %d\npayments of the tables on the chain: %d\npayments %s back: "+
		"%d, %s\ntransfers without a payment's id: %d\n", r.Rail, r.Wallets, do[0], r.Noops, r.Known, do[1], r.Stored,
		d.Coins(r.Sum), len(r.Foreign))
	for _, hash := range r.Foreign {
		fmt.Fprintf(&b, "  %s\n", hash)
	}
	for _, id := range r.Differ {
		fmt.Fprintf(&b, "  %s is on the chain, and the tables know it otherwise: remit payment show %s\n", id, id)
	}
	if len(r.Releases) > 0 {
		b.WriteString(r.releases +
			"these proposals are released once payments go on: first cancel those that were cancelled since the copy\n")
	}
	switch {
	case r.DryRun:
		b.WriteString("nothing was changed: a run would use up these nonces, and put these payments back\n")
	case r.Resumed:
		b.WriteString("the wallets pay again, except those that remit wallet list shows as paused\n")
	default:
		b.WriteString("the wallets are paused: remit wallet resume lets each pay again\n")
	}
	return b.String()
}
