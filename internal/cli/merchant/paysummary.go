package merchant

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"os"
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
	first, last string // days of their payments
}

func (p *payout) of(chosen func(*payRow) bool) (t tally) {
	for _, r := range p.rows {
		if !chosen(r) {
			continue
		}
		t.rows++
		t.sum, _ = t.sum.Add(r.amount) // parse refuses files with a larger sum
		if t.largest.Less(r.amount) {
			t.largest = r.amount
		}
		if day := r.made.Format(time.DateOnly); !r.made.IsZero() {
			t.first, t.last = min(cmp.Or(t.first, day), day), max(t.last, day)
		}
	}
	return t
}

// tokens is as "12.5 USDC".
func (p *payout) tokens(a token.Amount) string { return a.Tokens(p.coin.Decimals) + " " + p.coin.Token }

// text is as "2 rows, 300 USDC, on 2026-06-28".
func (t tally) text(p *payout) string {
	text := counted(t.rows, "row") + ", " + p.tokens(t.sum)
	if t.first != t.last {
		text += ", from " + t.first + " to " + t.last
	} else if t.first != "" {
		text += ", on " + t.first
	}
	return text
}

// summary shows the payments and warnings, and asks for consent.
func (p *payout) summary(ctx context.Context, out io.Writer, warnings []string) error {
	fresh := p.of(func(r *payRow) bool { return r.status == "" })
	paid := p.of(func(r *payRow) bool { return r.status != "" && r.status != "failed" })
	doubt := p.of(func(r *payRow) bool { return r.status == "" && r.doubt })
	do, done := "pay", "paid"
	if p.Propose {
		do, done = "propose", "proposed"
	}
	fmt.Fprintf(out, "%s: %s of %s on %s\n", p.File, counted(len(p.rows), "row"), p.coin.Token, p.coin.Network)
	if paid.rows > 0 {
		fmt.Fprintf(out, "  %-16s%s; not again, but by another --run\n", done+" before", paid.text(p))
	}
	if failed := len(p.rows) - fresh.rows - paid.rows; failed > 0 {
		fmt.Fprintf(out, "  failed before   %s, not tried again: use another reference, or a file of its own with "+
			"--run\n", counted(failed, "row"))
	}
	for _, batch := range p.failed {
		fmt.Fprintf(out, "  failed before   %s: paid nobody, so its rows are paid again\n", batch)
	}
	if n := len(p.lacking); n > 0 && !p.Propose {
		fmt.Fprintf(out, "  no longer there %s that this run paid: removed, or changed since:\n", counted(n, "row"))
		for i, was := range p.lacking {
			if i == 5 && !p.DryRun {
				fmt.Fprintf(out, "    and %d more; --dry-run shows all\n", n-i)
				break
			}
			place := strings.Replace("was line "+was[0], "was line none", "not in the file", 1)
			fmt.Fprintf(out, "    %s %s to %s, %q (%s)\n", was[11], p.coin.Token, was[6], was[9], place)
		}
	}
	if fresh.rows == 0 {
		fmt.Fprintf(out, "  %-16snothing\n", "to "+do)
		return nil
	}
	how := ""
	if p.Batch {
		how = ", in " + counted((fresh.rows+p.size-1)/p.size, "batch")
	}
	largest := fresh.largest.Tokens(p.coin.Decimals)
	fmt.Fprintf(out, "  %-16s%s in all, %s at most in one%s, at %s\n", "to "+do, fresh.text(p), largest, how, p.URL)
	if doubt.rows > 0 {
		fmt.Fprintf(out, "  unknown         %s of these: an earlier request was not answered; nothing is paid twice\n",
			counted(doubt.rows, "row"))
	}
	repeats := p.repeats()
	for _, line := range append(repeats, warnings...) {
		fmt.Fprintln(out, "  "+line)
	}
	switch {
	case p.DryRun, p.Yes && p.Duplicates, p.Yes && len(repeats) == 0:
		return nil
	case p.Yes:
		return fmt.Errorf("nothing was %s: the file has %s; add --duplicates to %s them too, correct the references, "+
			"or name another --run, which takes every row again", done, counted(len(repeats), "repeat"), do)
	}
	return consent(ctx, out)
}

// repeats describes the rows to pay that may pay twice. Such a row has the content of an earlier row; or, of a row that
// this run has paid and the file no longer has, the recipient and either the amount or the reference.
func (p *payout) repeats() (lines []string) {
	paid := map[[2]string][][]string{}
	for _, was := range p.lacking {
		for _, of := range [][2]string{{was[6], was[7]}, {was[6], "as " + was[9]}} {
			paid[of] = append(paid[of], was)
		}
	}
	for _, r := range p.rows {
		of, ref := [2]string{r.to.String(), r.amount.String()}, [2]string{r.to.String(), "as " + noFormula(r.reference)}
		earlier := ""
		switch {
		case r.status != "":
			continue
		case r.twin != 0:
			earlier = fmt.Sprint("line ", r.twin)
		case len(paid[of]) > 0:
			earlier = fmt.Sprintf("a row that this run has as %q", paid[of][0][9])
			paid[of] = paid[of][1:]
		case r.reference != "" && len(paid[ref]) > 0:
			earlier = "a row that this run has with another amount"
		default:
			continue
		}
		lines = append(lines, fmt.Sprintf("line %d repeats %s: %s to %s", r.line, earlier, p.tokens(r.amount), r.to))
	}
	return lines
}

func consent(ctx context.Context, out io.Writer) error {
	refusal := errors.New("nothing was paid; answer y at a terminal, or add --yes")
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return refusal
	}
	fmt.Fprint(out, "Go on with all of these? [y/N] ")
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
	return refusal
}

// resembling returns a warning for each row to pay whose address may be mistaken for that of another row, of an earlier
// run's results, of the newest 100 entries of the address book or the newest 100 payments, as far as the key may read.
func (p *payout) resembling(ctx context.Context) (warnings []string) {
	type ends [4]byte
	known, named := map[ends][]token.Address{}, map[token.Address]string{}
	of := func(a token.Address) ends { return ends{a[0], a[1], a[18], a[19]} }
	learn := func(address, name string) {
		if a, err := token.ParseAddress(address); err == nil && named[a] == "" {
			named[a], known[of(a)] = name, append(known[of(a)], a)
		}
	}
	for _, was := range p.earlier() {
		if was[2] != "" {
			learn(was[6], "paid by an earlier run of this file")
		}
	}
	q := url.Values{"limit": {"100"}}
	unread := newest(p.api.ListRecipients(ctx, q), func(e remit.Recipient) { learn(e.Address, "in your address book") })
	missed := newest(p.api.List(ctx, q), func(made remit.Payment) {
		p.match(made)
		for _, e := range append(made.Payments, remit.BatchEntry{To: made.To}) {
			learn(e.To, "paid before")
		}
	})
	for _, r := range p.rows {
		learn(r.to.String(), fmt.Sprint("line ", r.line))
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
	if unread || missed {
		warnings = append(warnings, "the addresses were not compared with all that you know: the API gave no answer")
	}
	return warnings
}

// newest reads the first page of a list of pages of 100. It reports whether it failed, unless the key may not read it.
func newest[T any](list iter.Seq2[T, error], read func(T)) (failed bool) {
	n := 0
	for one, err := range list {
		if err != nil {
			refusal, answered := errors.AsType[*remit.Refused](err)
			return !answered || refusal.Status != http.StatusForbidden
		}
		read(one)
		if n++; n == 100 {
			break
		}
	}
	return false
}
