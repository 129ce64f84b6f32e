package merchant

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/remit-payouts/remit/internal/evm/token"
)

// summary shows the payments and warnings, and asks for consent.
func (p *payout) summary(out io.Writer, warnings []string) error {
	var total, largest token.Amount
	var twins []*payRow
	fresh, paid, failed := 0, 0, 0
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
		fresh++
		if r.twin != 0 {
			twins = append(twins, r)
		}
	}
	fmt.Fprintf(out, "%s: %d rows\n", p.File, len(p.rows))
	if paid > 0 {
		fmt.Fprintf(out, "  paid before     %d rows, which are not paid again; if this is another payout, give it a name with --run\n", paid)
	}
	if failed > 0 {
		fmt.Fprintf(out, "  failed before   %d rows, which stay failed; to try them again, give them another "+
			"reference, or a file of their own with --run\n", failed)
	}
	for _, batch := range p.failed {
		fmt.Fprintf(out, "  failed before   %s, which paid nobody: rows of it are paid again\n", batch)
	}
	if otherwise := p.otherwise(); len(otherwise) > 0 {
		fmt.Fprintf(out, "  paid otherwise  %d rows of an earlier run, which this file lacks or has under another name or reference: %s\n",
			len(otherwise), strings.Join(otherwise, ", "))
	}
	if fresh == 0 {
		fmt.Fprintln(out, "  to pay          nothing")
		return nil
	}
	most, batches := "", ""
	switch {
	case p.Batch:
		batches = fmt.Sprintf(", in %d batches", (fresh+p.size-1)/p.size)
	case p.number > 0:
		most, batches = "at most ", ": this run is begun, and a row that it has paid is not paid again"
	}
	fmt.Fprintf(out, "  to pay          %s%d rows, %s %s in all, %s at most in one%s\n", most, fresh,
		total.Tokens(p.decimals), p.symbol, largest.Tokens(p.decimals), batches)
	for _, r := range twins {
		fmt.Fprintf(out, "  line %d repeats line %d: %s %s to %s\n", r.line, r.twin, r.amount.Tokens(p.decimals), p.symbol, r.to)
	}
	for _, warning := range warnings {
		fmt.Fprintln(out, "  "+warning)
	}
	if p.DryRun {
		return nil
	}
	if p.Yes && len(twins) > 0 && !p.Duplicates {
		return fmt.Errorf("nothing was paid: %d rows repeat an earlier row; add --duplicates to pay them too, or tell "+
			"them apart by a reference", len(twins))
	}
	return p.consent(out, len(twins))
}

// consent asks on a terminal.
func (p *payout) consent(out io.Writer, twins int) error {
	if p.Yes {
		return nil
	}
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return errors.New("nothing was paid; add --yes to pay without a question")
	}
	question := "Pay them? [y/N] "
	if twins > 0 && !p.Duplicates {
		question = fmt.Sprintf("Pay them, the %d that repeat an earlier row too? [y/N] ", twins)
	}
	fmt.Fprint(out, question)
	answer, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err != nil || !strings.EqualFold(strings.TrimSpace(answer), "y") {
		return errors.New("nothing was paid; answer y to pay, or add --yes")
	}
	return nil
}
