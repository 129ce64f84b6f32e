package merchant

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/remit-payouts/remit/internal/evm/token"
	remit "github.com/remit-payouts/remit/sdk/go"
)

// A tally counts rows and their tokens.
type tally struct {
	rows        int
	sum         token.Amount
	largest     token.Amount
	first, last time.Time // of their payments
}

func (p *payout) of(chosen func(*payRow) bool) (t tally) {
	for _, r := range p.rows {
		if !chosen(r) {
			continue
		}
		t.rows++
		if sum, err := t.sum.Add(r.amount); err == nil { // read refuses files with a larger sum
			t.sum = sum
		}
		if t.largest.Less(r.amount) {
			t.largest = r.amount
		}
		if !r.made.IsZero() && (t.first.IsZero() || r.made.Before(t.first)) {
			t.first = r.made
		}
		if r.made.After(t.last) {
			t.last = r.made
		}
	}
	return t
}

// tokens is as "12.5 USDC".
func (p *payout) tokens(a token.Amount) string { return a.Tokens(p.coin.Decimals) + " " + p.coin.Token }

// text is as "2 rows, 300 USDC, on 2026-06-28".
func (t tally) text(p *payout) string {
	text := counted(t.rows, "row") + ", " + p.tokens(t.sum)
	first, last := t.first.Format(time.DateOnly), t.last.Format(time.DateOnly)
	switch {
	case t.last.IsZero():
		return text
	case first == last:
		return text + ", on " + last
	}
	return text + ", from " + first + " to " + last
}

// summary shows the payments and warnings, and asks for consent.
func (p *payout) summary(ctx context.Context, out io.Writer, warnings []string) error {
	fresh := p.of(func(r *payRow) bool { return r.status == "" })
	paid := p.of(func(r *payRow) bool { return r.status != "" && r.status != "failed" })
	doubt := p.of(func(r *payRow) bool { return r.status == "" && r.doubt })
	fmt.Fprintf(out, "%s: %s of %s on %s\n", p.File, counted(len(p.rows), "row"), p.coin.Token, p.coin.Network)
	if paid.rows > 0 {
		fmt.Fprintf(out, "  paid before     %s; not paid again: name another payout with --run\n", paid.text(p))
	}
	if failed := len(p.rows) - fresh.rows - paid.rows; failed > 0 {
		fmt.Fprintf(out, "  failed before   %s, not tried again: use another reference, or a file of its own with "+
			"--run\n", counted(failed, "row"))
	}
	for _, batch := range p.failed {
		fmt.Fprintf(out, "  failed before   %s: paid nobody, so its rows are paid again\n", batch)
	}
	if n := len(p.lacking); n > 0 {
		const shownElse = 5
		fmt.Fprintf(out, "  paid otherwise  %s, with another reference or not in the file:\n", counted(n, "row"))
		for _, was := range p.lacking[:min(n, shownElse)] {
			fmt.Fprintf(out, "    %s %s to %s, %q (line %s)\n", was[11], p.coin.Token, was[6], was[9], was[0])
		}
		if n > shownElse {
			fmt.Fprintf(out, "    and %d more, at the end of %s\n", n-shownElse, p.results())
		}
	}
	if fresh.rows == 0 {
		fmt.Fprintln(out, "  to pay          nothing")
		return nil
	}
	batches := ""
	if p.Batch {
		batches = ", in " + counted((fresh.rows+p.size-1)/p.size, "batch")
	}
	largest := fresh.largest.Tokens(p.coin.Decimals)
	title := map[bool]string{false: "to pay    ", true: "to propose"}[p.Propose]
	fmt.Fprintf(out, "  %s      %s in all, %s at most in one%s\n", title, fresh.text(p), largest, batches)
	if doubt.rows > 0 {
		fmt.Fprintf(out, "  unknown         %s of these: an earlier request was not answered; nothing is paid twice\n",
			counted(doubt.rows, "row"))
	}
	repeats := p.repeats()
	for _, line := range append(repeats, warnings...) {
		fmt.Fprintln(out, "  "+line)
	}
	if p.DryRun {
		return nil
	}
	if p.Yes && len(repeats) > 0 && !p.Duplicates {
		return fmt.Errorf("nothing was paid: the file has %s; add --duplicates to pay them too, tell them apart by a "+
			"reference, or name another --run", counted(len(repeats), "repeat"))
	}
	return p.consent(ctx, out, len(repeats))
}

// repeats describes the rows to pay that have the content of an earlier row, or the recipient and amount of one that
// this run has paid under a reference that the file no longer has.
func (p *payout) repeats() (lines []string) {
	paid := map[[2]string][][]string{}
	for _, was := range p.lacking {
		of := [2]string{was[6], was[7]}
		paid[of] = append(paid[of], was)
	}
	for _, r := range p.rows {
		of := [2]string{r.to.String(), r.amount.String()}
		earlier := ""
		switch {
		case r.status != "":
			continue
		case r.twin != 0:
			earlier = fmt.Sprint("line ", r.twin)
		case len(paid[of]) > 0:
			earlier = fmt.Sprintf("a row that this run has paid as %q", paid[of][0][9])
			paid[of] = paid[of][1:]
		default:
			continue
		}
		lines = append(lines, fmt.Sprintf("line %d repeats %s: %s to %s", r.line, earlier, p.tokens(r.amount), r.to))
	}
	return lines
}

func (p *payout) consent(ctx context.Context, out io.Writer, repeats int) error {
	if p.Yes {
		return nil
	}
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return errors.New("nothing was paid; add --yes to pay without a question")
	}
	question := "Pay them? [y/N] "
	if repeats > 0 && !p.Duplicates {
		question = fmt.Sprintf("Pay them, %s included? [y/N] ", counted(repeats, "repeat"))
	}
	fmt.Fprint(out, question)
	typed := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(os.Stdin).ReadString('\n') // "" is no consent
		typed <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case answer := <-typed:
		if answer == "y" || answer == "yes" {
			return nil
		}
	case <-ctx.Done():
		fmt.Fprintln(out)
	}
	return errors.New("nothing was paid; answer y to pay, or add --yes")
}

// resembling returns a warning for each row to pay whose address may be mistaken for a known one:
// of another row, of an earlier run's results, of the newest 100 entries of the address book, or
// of the newest 100 payments. A key that may not read one of these is not warned of it.
func (p *payout) resembling(ctx context.Context) (warnings []string) {
	type ends [4]byte
	known, named := map[ends][]token.Address{}, map[token.Address]string{}
	of := func(a token.Address) ends { return ends{a[0], a[1], a[18], a[19]} }
	learn := func(a token.Address, name string) {
		if named[a] == "" {
			named[a], known[of(a)] = name, append(known[of(a)], a)
		}
	}
	text := func(address, name string) {
		if a, err := token.ParseAddress(address); err == nil {
			learn(a, name)
		}
	}
	for _, was := range p.earlier() {
		if was[2] != "" {
			text(was[6], "paid by an earlier run of this file")
		}
	}
	page := url.Values{"limit": {"100"}}
	book, err := newest(p.api.ListRecipients(ctx, page))
	for _, e := range book {
		text(e.Address, "in your address book")
	}
	payments, unread := newest(p.api.List(ctx, page))
	for _, made := range payments {
		text(made.To, "paid before")
		for _, o := range made.Payments {
			text(o.To, "paid before")
		}
	}
	for _, r := range p.rows {
		learn(r.to, fmt.Sprint("line ", r.line))
	}
	warned := map[token.Address]bool{}
	for _, r := range p.rows {
		for _, a := range known[of(r.to)] {
			if r.status == "" && r.to.Resembles(a) && !warned[r.to] {
				warnings = append(warnings, fmt.Sprintf("line %d: %s resembles %s (%s): compare every digit", r.line, r.to, a, named[a]))
			}
		}
		warned[r.to] = true
	}
	if slices.ContainsFunc([]error{err, unread}, func(err error) bool {
		refusal, answered := errors.AsType[*remit.Refused](err)
		return err != nil && (!answered || refusal.Status != http.StatusForbidden)
	}) {
		warnings = append(warnings, "the addresses were not compared with all that you know: the API gave no answer")
	}
	return warnings
}

// newest returns the first page of a list of pages of 100, and the error that ended it.
func newest[T any](list iter.Seq2[T, error]) (first []T, err error) {
	for one, err := range list {
		if err != nil {
			return first, err
		}
		if first = append(first, one); len(first) == 100 {
			break
		}
	}
	return first, nil
}
