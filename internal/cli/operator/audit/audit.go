// Package audit compares the tables of a stack with the chain, both ways.
package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	room "github.com/remit-payouts/remit/internal/cli/operator/payment"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
)

// Command is `remit audit`.
type Command struct {
	deployed.Target
	From deployed.Moment `placeholder:"BLOCK|TIME" help:"First block, or a time such as 2026-01-31T00:00:00Z."`
	To   deployed.Moment `placeholder:"BLOCK|TIME" help:"Last block, or a time after it. 0: the last final block."`
	Own  []chain.Hash    `placeholder:"HASH" help:"A transaction that you sent with a wallet's key. May be repeated."`
}

const (
	kindPaid    = "paid and known"
	kindPending = "paid and pending"
	kindFailed  = "failed and known"
	kindMoved   = "operator transfer"
	kindOwn     = "your own"
	kindUnknown = "on the chain and unknown"
	kindMissing = "known and not on the chain"
	kindDiffers = "differs"
)

type daySum struct {
	Wallet  token.Address `json:"wallet"`
	Day     string        `json:"day"` // of UTC, by the block; of a payment that is not on the chain, by its end
	Kind    string        `json:"kind"`
	Count   int           `json:"count"`
	Amount  token.Amount  `json:"amount"`
	Decimal string        `json:"amount_decimal"`
	Of      string        `json:"wallet_of"` // the merchant whose coins moved; empty: they were common
}

type difference struct {
	Kind    string        `json:"kind"`
	Wallet  token.Address `json:"wallet"`
	Tx      *chain.Hash   `json:"tx_hash"`
	Payment payment.ID    `json:"payment,omitempty"`
	What    string        `json:"what"`
}

type report struct {
	From        uint64       `json:"from_block"`
	To          uint64       `json:"to_block"`
	Nodes       []string     `json:"nodes"`
	Sums        []daySum     `json:"sums"`
	Differences []difference `json:"differences"`
}

type auditor struct {
	*deployed.Deployment
	line *Command
	report
	nodes     chain.Nodes
	wallets   []token.Address
	transfers []chain.LoggedTransfer
	known     map[chain.Hash]*entry    // payments by the hash of each attempt, or of the final one
	times     map[chain.Hash]time.Time // of the transfers
	sums      map[daySum]*daySum       // by wallet, day and kind
}

// An entry is a payment in the tables, with the transfers not yet found on the chain.
type entry struct {
	payment.Payment
	left []chain.Transfer
}

// Run audits every rail, or the one of --rail. It changes nothing.
func (c *Command) Run(ctx context.Context, d *deployed.Deployment) error {
	if _, err := d.One(ctx); err != nil && (c.JSON || c.From.Block > 0 || c.To.Block > 0) {
		return fmt.Errorf("--json and numbers of blocks are of one rail: %w", err)
	}
	return d.Each(ctx, func(on *deployed.Deployment) error { return c.audit(ctx, on) })
}

// audit finds the last final block, then reads the tables, which have the payments up to it by then.
func (c *Command) audit(ctx context.Context, d *deployed.Deployment) error {
	a := &auditor{
		Deployment: d, line: c, known: map[chain.Hash]*entry{}, times: map[chain.Hash]time.Time{},
		sums: map[daySum]*daySum{}, report: report{Sums: []daySum{}, Differences: []difference{}},
	}
	for _, step := range []func(context.Context) error{a.open, a.readTables, a.readChain, a.readTimes, a.compare} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return a.answer()
}

func (a *auditor) open(ctx context.Context) error {
	wallets, err := a.Wallets(ctx)
	nodes, unread := a.Deployment.Nodes(ctx)
	if err = cmp.Or(err, unread); err != nil {
		return err
	}
	for _, r := range wallets {
		a.wallets = append(a.wallets, r.Address)
	}
	if len(a.wallets) == 0 {
		return errors.New("the stack has no wallet to audit; add one with remit wallet create")
	}
	for _, node := range nodes {
		a.nodes, a.report.Nodes = append(a.nodes, node), append(a.report.Nodes, node.String())
	}
	final, err := a.nodes.FinalOnAll(ctx, a.Config.ConfirmationRule)
	if err != nil {
		return fmt.Errorf("every configured node must answer for an audit: %w", err)
	}
	first, err := a.line.From.First(ctx, a.nodes, final)
	last, unread := a.line.To.First(ctx, a.nodes, final)
	if err = cmp.Or(err, unread); err != nil {
		return err
	}
	switch timed := !a.line.To.At.IsZero(); {
	case timed && last == 0:
		return errors.New("--to is before the chain's first block; name a later time")
	case timed && last <= final:
		last--
	case !timed:
		last = cmp.Or(last, final)
	}
	switch a.report.From, a.report.To = first, last; {
	case last > final:
		return fmt.Errorf("--to is later than block %d, the last final on every node; wait, or leave --to out", final)
	case first > last:
		return fmt.Errorf("--from %d is beyond block %d, the last of this audit; name an earlier block", first, last)
	}
	return nil
}

// chunk is how many blocks one request covers; smaller for a node that takes fewer.
const chunk = 10_000

func (a *auditor) readChain(ctx context.Context) error {
	for next, last := a.report.From, a.report.To; next <= last; next += chunk {
		end := min(last, next+chunk-1)
		found, err := a.nodes.Transfers(ctx, a.Asset.Contract, a.wallets, next, end)
		if err != nil {
			return err
		}
		a.transfers = append(a.transfers, found...)
		if a.Account != nil && end < last {
			fmt.Fprintf(os.Stderr, "read blocks up to %d of %d; transfers: %d\n", end, last, len(a.transfers))
		}
	}
	return nil
}

func (a *auditor) readTables(ctx context.Context) error {
	for stored, err := range a.Payments.Entries(ctx) {
		p := stored.Payment
		switch {
		case errors.Is(err, store.ErrUnreadable):
			a.Differences = append(a.Differences, difference{Kind: kindDiffers, What: err.Error()})
		case err != nil:
			return err
		case stored.Noop.IsZero() && p.Tx.ChainID == a.ChainID && p.Token.Contract == a.Asset.Contract:
			hashes := p.Hashes()
			p.Metadata, p.Event, p.Attempts, p.Tx = nil, nil, nil, chain.Tx{}
			known := &entry{p, p.Transfers()}
			for _, h := range hashes {
				a.known[h] = known
			}
		}
	}
	return nil
}

func (a *auditor) readTimes(ctx context.Context) error {
	wanted := map[chain.Hash]bool{}
	for _, t := range a.transfers {
		wanted[t.Tx] = true
	}
	for some := range slices.Chunk(slices.Collect(maps.Keys(wanted)), 200) {
		txs, err := a.nodes.TransactionsUntil(ctx, some, a.report.To)
		if err != nil {
			return err
		}
		for _, tx := range txs {
			a.times[tx.Hash] = tx.At
		}
	}
	return nil
}

func (a *auditor) compare(context.Context) error {
	for _, t := range a.transfers {
		p := a.known[t.Tx]
		kind, what := a.judge(t, p)
		if what != "" {
			d := difference{Kind: kind, Wallet: t.From, Tx: &t.Tx, What: what}
			if p != nil {
				d.Payment = p.ID
			}
			a.Differences = append(a.Differences, d)
		}
		a.count(kind, t.From, p, a.times[t.Tx], t.Amount)
	}
	for h, p := range a.known {
		audited := p.Onchain == h && p.Block >= a.report.From && p.Block <= a.report.To
		if p.State == payment.Confirmed && len(p.left) > 0 && audited {
			what := fmt.Sprintf("the tables have it as confirmed in block %d: %s %s to %s", p.Block,
				p.Amount.Tokens(p.Token.Decimals), p.Token.Symbol, room.Payee(p.Payment))
			a.Differences = append(a.Differences, difference{kindMissing, p.Wallet, &p.Onchain, p.ID, what})
			for _, t := range p.left {
				a.count(kindMissing, p.Wallet, p, p.UpdatedAt, t.Amount)
			}
		}
	}
	return nil
}

func (a *auditor) judge(t chain.LoggedTransfer, p *entry) (kind, what string) {
	paid := fmt.Sprintf("%s to %s in block %d", a.Coins(t.Amount), t.To, t.Block)
	at := -1 // the index in p of the transfer to t's recipient, whatever its amount
	var amount token.Amount
	if p != nil {
		if at = slices.Index(p.left, t.Transfer); at < 0 {
			at = slices.IndexFunc(p.left, func(l chain.Transfer) bool { l.Amount = t.Amount; return l == t.Transfer })
		}
		if at >= 0 {
			amount = p.left[at].Amount
			p.left = slices.Delete(p.left, at, at+1)
		}
	}
	switch {
	case slices.Contains(a.line.Own, t.Tx):
		return kindOwn, ""
	case p == nil:
		return kindUnknown, paid
	case at < 0:
		return kindUnknown, fmt.Sprintf("%s, by the transaction of a payment of %s to %s from %s", paid,
			a.Coins(p.Amount), room.Payee(p.Payment), p.Transfers()[0].From)
	case p.Failure != nil && p.Failure.Code == payment.AmountDiffers:
		return kindFailed, ""
	case p.State == payment.Failed:
		return kindDiffers, fmt.Sprintf("%s; the tables have it as failed: %s", paid, p.Failure.Code)
	case amount != t.Amount:
		return kindDiffers, fmt.Sprintf("%s; the tables say %s", paid, a.Coins(amount))
	case p.State == payment.Confirmed && (p.Onchain != t.Tx || p.Block != t.Block):
		return kindDiffers, fmt.Sprintf("%s; the tables say transaction %s in block %d", paid, p.Onchain, p.Block)
	case p.State == payment.Confirmed && p.Merchant == payment.Operator:
		return kindMoved, ""
	case p.State == payment.Confirmed:
		return kindPaid, ""
	}
	return kindPending, ""
}

func (a *auditor) count(kind string, wallet token.Address, p *entry, at time.Time, amount token.Amount) {
	key := daySum{Wallet: wallet, Day: at.UTC().Format(time.DateOnly), Kind: kind}
	if p != nil {
		key.Of = p.WalletOf
	}
	sum := a.sums[key]
	if sum == nil {
		sum = new(key)
		a.sums[key] = sum
	}
	sum.Count++
	sum.Amount, _ = sum.Amount.Add(amount) // the sum of one chain's transfers cannot overflow
}

func (a *auditor) answer() error {
	ordered := func(x, y daySum) int { return cmp.Compare(fmt.Sprint(x), fmt.Sprint(y)) }
	for _, key := range slices.SortedFunc(maps.Keys(a.sums), ordered) {
		sum := a.sums[key]
		sum.Decimal = sum.Amount.Tokens(a.Asset.Decimals)
		a.Sums = append(a.Sums, *sum)
	}
	slices.SortFunc(a.Differences, func(x, y difference) int {
		return cmp.Compare(x.Wallet.String()+x.Kind+x.What, y.Wallet.String()+y.Kind+y.What)
	})
	if err := a.Show(a.report, a.text()); err != nil || len(a.Differences) == 0 {
		return err
	}
	lines := ""
	for _, d := range a.Differences {
		if lines += "\n" + d.Kind; d.Tx != nil {
			lines += fmt.Sprintf(": %s %s", d.Tx, d.Payment)
		}
		lines += ": " + d.What
	}
	return fmt.Errorf("%d differences between the tables and the chain; find their meaning in "+
		"docs/operate.md#audit-and-export:%s", len(a.Differences), lines)
}

func (a *auditor) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Blocks %d to %d, final on %s.\n\n", a.report.From, a.report.To, strings.Join(a.report.Nodes, ", "))
	const row = "%-42s  %-10s  %-26s  %7v  %20s  %s\n"
	fmt.Fprintf(&b, row, "WALLET", "DAY", "TRANSACTIONS", "NUMBER", a.Asset.Symbol, "COINS OF")
	for _, s := range a.Sums {
		fmt.Fprintf(&b, row, s.Wallet, s.Day, s.Kind, s.Count, s.Decimal, cmp.Or(s.Of, "-"))
	}
	if len(a.Differences) == 0 {
		b.WriteString("\nNo difference.")
	}
	return b.String()
}
