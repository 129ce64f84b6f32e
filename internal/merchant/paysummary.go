package merchant

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"

	"golang.org/x/term"

	"remit/internal/token"
)

// summary says what will be paid and asks for consent.
func (p *payout) summary(ctx context.Context, out io.Writer) error {
	var total, largest token.Amount
	var fresh, twins []*payRow
	paid, failed := 0, 0
	for _, r := range p.rows {
		switch r.status {
		case "":
		case "failed":
			failed++
			continue
		default:
			paid++
			continue
		}
		var err error
		if total, err = total.Add(r.amount); err != nil {
			return fmt.Errorf("the sum of the rows: %w", err)
		}
		if largest.Less(r.amount) {
			largest = r.amount
		}
		fresh = append(fresh, r)
		if r.twin != 0 {
			twins = append(twins, r)
		}
	}
	fmt.Fprintf(out, "%s: %d rows\n", p.File, len(p.rows))
	if paid > 0 {
		fmt.Fprintf(out, "  paid before     %d rows, which are not paid again; if this is another payout, give it a name with --run\n", paid)
	}
	if failed > 0 {
		fmt.Fprintf(out, "  failed before   %d rows, which stay failed; to try them again, give them another reference, or a file of their own with --run\n", failed)
	}
	for _, batch := range p.failed {
		fmt.Fprintf(out, "  failed before   %s, which paid nobody: rows of it are paid again\n", batch)
	}
	gone, again := p.gone()
	if len(again) > 0 {
		fmt.Fprintf(out, "  paid otherwise  %d rows of the same recipient and amount, by an earlier run under another name or reference: %s\n", len(again), strings.Join(again, ", "))
	}
	if len(gone) > 0 {
		fmt.Fprintf(out, "  not here now    %d rows that an earlier run of this file paid: %s\n", len(gone), strings.Join(gone, ", "))
	}
	if len(fresh) == 0 {
		fmt.Fprintln(out, "  to pay          nothing")
		return nil
	}
	most, batches := "", ""
	switch {
	case p.Batch:
		batches = fmt.Sprintf(", in %d batches", (len(fresh)+p.size-1)/p.size)
	case p.number > 0:
		most, batches = "at most ", ": this run is begun, and a row that it has paid is not paid again"
	}
	fmt.Fprintf(out, "  to pay          %s%d rows, %s %s in all, %s at most in one%s\n", most, len(fresh), total.Tokens(p.decimals), p.symbol, largest.Tokens(p.decimals), batches)
	fmt.Fprintf(out, "  new recipients  %s\n", p.newRecipients(ctx, fresh))
	fmt.Fprintf(out, "  your limits     %s\n", p.limits(ctx))
	for _, r := range twins {
		fmt.Fprintf(out, "  line %d says the same as line %d: %s %s to %s\n", r.line, r.twin, r.amount.Tokens(p.decimals), p.symbol, r.to)
	}
	if p.DryRun {
		return nil
	}
	if p.Yes && len(twins) > 0 && !p.Duplicates {
		return fmt.Errorf("nothing was paid: %d rows say the same as an earlier row; say --duplicates to pay them too, or tell them apart by a reference", len(twins))
	}
	return p.consent(out, len(twins))
}

// consent asks on a terminal.
func (p *payout) consent(out io.Writer, twins int) error {
	if p.Yes {
		return nil
	}
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return errors.New("nothing was paid: say --yes to pay without being asked")
	}
	question := "Pay them? [y/N] "
	if twins > 0 && !p.Duplicates {
		question = fmt.Sprintf("Pay them, the %d that say the same as an earlier row too? [y/N] ", twins)
	}
	fmt.Fprint(out, question)
	answer, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err != nil || !strings.EqualFold(strings.TrimSpace(answer), "y") {
		return errors.New("nothing was paid")
	}
	return nil
}

// recently is how many of the merchant's last payments are looked at for recipients.
const recently = 1_000

// newRecipients counts the recipients that none of the merchant's last payments went
// to.
func (p *payout) newRecipients(ctx context.Context, rows []*payRow) string {
	before, cursor := map[string]bool{}, ""
	for range recently / 100 {
		filters := url.Values{"limit": {"100"}}
		if cursor != "" {
			filters = url.Values{"cursor": {cursor}}
		}
		page, next, err := p.api.Payments(ctx, filters)
		if err != nil {
			return "cannot be seen: " + err.Error()
		}
		for _, paid := range page {
			before[paid.To] = true
			for _, e := range paid.Entries {
				before[e.To] = true
			}
		}
		if cursor = next; next == "" {
			break
		}
	}
	fresh := map[token.Address]bool{}
	for _, r := range rows {
		fresh[r.to] = !before[r.to.String()]
	}
	n := 0
	for _, is := range fresh {
		if is {
			n++
		}
	}
	return fmt.Sprintf("%d of %d, judged by your last %d payments", n, len(fresh), recently)
}

// limits tells what the key may pay.
func (p *payout) limits(ctx context.Context) string {
	keys, err := p.api.Keys(ctx)
	if err != nil {
		return "cannot be seen with this key"
	}
	for _, k := range keys {
		if !strings.HasPrefix(p.api.Key, k.Prefix) {
			continue
		}
		var parts []string
		for _, limit := range []struct {
			name  string
			units *json.Number
		}{{"a payment", k.MaxAmount}, {"a day", k.DailyAmount}} {
			if limit.units == nil {
				continue
			}
			if amount, err := token.ParseAmount(limit.units.String()); err == nil {
				parts = append(parts, fmt.Sprintf("%s %s %s", amount.Tokens(p.decimals), p.symbol, limit.name))
			}
		}
		if k.DailyCount != nil {
			parts = append(parts, fmt.Sprintf("%d payments a day", *k.DailyCount))
		}
		if len(parts) > 0 {
			return strings.Join(parts, ", ")
		}
		return "none of this key's own; the stack's are not shown"
	}
	return "cannot be seen with this key"
}
