package payment

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/remit-payouts/remit/internal/cli/operator/change"
	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/keyring"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/recovery"
	"github.com/remit-payouts/remit/internal/payments/settlement"
)

// Recovering is the command line of `remit recover`.
type Recovering struct {
	Since  deployed.Moment `placeholder:"BLOCK|TIME" help:"First block or time of lost payments; 0: the whole chain."`
	Window uint64          `help:"Nonces that may be signed: at least 128, twice the largest NonceWindow."`
	Wallet []token.Address `help:"A wallet that has paid and has neither a registration nor a key; may be repeated."`
	DryRun bool            `help:"Show the necessary steps, and change nothing."`
	Resume bool            `help:"Resume the wallets, if every transfer belongs to a payment."`
}

// A recovered is the report of a recovery.
type recovered struct {
	Wallets int          `json:"wallets"`
	Noops   int          `json:"nonces_used_up"`
	Known   int          `json:"payments_known"`
	Stored  int          `json:"payments_put_back"`
	Sum     token.Amount `json:"amount_put_back"`
	Foreign []chain.Hash `json:"transfers_without_id"`
	Differ  []payment.ID `json:"payments_that_differ"`
	DryRun  bool         `json:"dry_run"`
	Resumed bool         `json:"resumed"`
}

// Change recovers. It reports progress on standard error.
func (c Recovering) Change(ctx context.Context, d *deployed.Deployment) (none change.Change, err error) {
	r, err := c.recovery(ctx, d)
	if err != nil {
		return none, err
	}
	if c.DryRun {
		none.Answer, err = c.run(ctx, d, r)
		return none, err
	}
	return change.Change{
		Consequences: fmt.Sprintf("Every wallet of stack %s is paused. From each, up to %d transactions that move "+
			"nothing use up the nonces that lost transactions may have. "+
			"Payments that only the chain has are put into the tables. remit recover --dry-run counts them.", d.Stack, r.Window),
		Apply: func(ctx context.Context) (change.Answer, error) { return c.run(ctx, d, r) },
	}, nil
}

func (c Recovering) run(ctx context.Context, d *deployed.Deployment, r *recovery.Recovery) (none change.Answer, err error) {
	ids, err := r.Hold(ctx)
	if err != nil {
		return none, err
	}
	if err := c.unconfirm(ctx, d); err != nil {
		return none, fmt.Errorf("ending the confirmation of the settings: %w", err)
	}
	done, err := r.Run(ctx, ids)
	if err != nil {
		return none, fmt.Errorf("%w; run remit recover again, which continues", err)
	}
	report := recovered{len(ids), done.Noops, done.Known, done.Stored, done.Sum, done.Foreign, done.Differ, c.DryRun, false}
	if c.Resume && !c.DryRun && len(done.Foreign)+len(done.Differ) == 0 {
		if err := r.Resume(ctx, ids); err != nil {
			return none, err
		}
		report.Resumed = true
	}
	if len(done.Differ) > 0 && !c.DryRun {
		err = errors.New("the tables and the chain differ, so the wallets stay paused; check the payments above, then " +
			"run remit wallet resume --all")
	}
	return change.Answer{JSON: report, Text: report.text(d)}, err
}

// unconfirm ends the confirmation of settings that may predate the loss: live payments wait until an operator confirms.
func (c Recovering) unconfirm(ctx context.Context, d *deployed.Deployment) error {
	if c.DryRun {
		return nil
	}
	rules, err := d.Payments.Rules(ctx)
	rail := rules.Rail(d.Config.Coin())
	if s := rail.Settings; err == nil && rail.Unusable == nil && s.Confirmed {
		s.Confirmed, s.At, s.Why = false, time.Now(), "remit recover"
		who, err := d.Who(ctx)
		if err != nil {
			return err
		}
		s.Who = who[max(0, len(who)-256):]
		return d.Payments.SetSettings(ctx, s)
	}
	return err
}

// recovery wires the parts as check-receipts does.
func (c Recovering) recovery(ctx context.Context, d *deployed.Deployment) (*recovery.Recovery, error) {
	nodes, _, err := d.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	final, err := nodes.FinalOnAll(ctx, d.Config.ConfirmationRule)
	if err != nil {
		return nil, fmt.Errorf("every configured node must answer: %w", err)
	}
	since, err := c.Since.First(ctx, nodes, final)
	if err == nil && since > final+1 {
		err = fmt.Errorf("--since %d is beyond block %d, the last final one; name an earlier block", since, final)
	}
	if err != nil {
		return nil, err
	}
	stored, err := d.Keyed(ctx)
	if err != nil {
		return nil, err
	}
	keys := d.Signing(keyring.New(read(d)))
	settler := settlement.New(d.Config, settlement.Parts{
		Store: d.Payments, Keys: keys, Nodes: nodes, Events: webhook.NewPublisher(d.Webhooks, d.Jobs), Log: slog.Default(), Now: time.Now,
	})
	return &recovery.Recovery{
		Config: d.Config, Store: d.Payments, Keys: keys, Nodes: nodes, Now: time.Now, Wait: settlement.Sleep,
		Settle: func(ctx context.Context) error {
			_, err := settler.Round(ctx, "recover", true)
			return err
		},
		Say:   func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) },
		Keyed: slices.Collect(maps.Keys(stored)), Wallets: c.Wallet,
		Window: max(c.Window, 2*max(settings.MaxWindow, d.Config.Own.Window)), Since: min(since, final), DryRun: c.DryRun,
	}, nil
}

// read reads the key of a wallet, once.
func read(d *deployed.Deployment) func(token.Address) keyring.Read {
	return func(a token.Address) keyring.Read {
		var mu sync.Mutex
		var key keyring.Key
		return func(ctx context.Context) (_ keyring.Key, err error) {
			mu.Lock()
			defer mu.Unlock()
			if key.Address() != a {
				key, err = d.Key(ctx, a)
			}
			return key, err
		}
	}
}

func (r recovered) text(d *deployed.Deployment) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d wallets, %d nonces used up\n%d payments of the tables are on the chain\n%d payments put back, "+
		"%s\n%d transfers without a payment's id\n",
		r.Wallets, r.Noops, r.Known, r.Stored, d.Coins(r.Sum), len(r.Foreign))
	for _, hash := range r.Foreign {
		fmt.Fprintf(&b, "  %s\n", hash)
	}
	for _, id := range r.Differ {
		fmt.Fprintf(&b, "  %s is on the chain, and the tables know it otherwise: remit payment show %s\n", id, id)
	}
	switch {
	case r.DryRun:
		b.WriteString("nothing was changed")
	case r.Resumed:
		b.WriteString("the wallets pay again; remit wallet list shows any that another reason keeps paused")
	default:
		b.WriteString("the wallets are paused: remit wallet resume lets each pay again")
	}
	return b.String()
}
