package merchant

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/remit-payouts/remit/internal/evm/token"
	remit "github.com/remit-payouts/remit/sdk/go"
)

// A tally counts rows and their tokens.
type tally struct {
	rows    int
	sum     token.Amount
	largest token.Amount
	first   string // day of the oldest payment; "" for none
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
			t.first = min(cmp.Or(t.first, day), day)
		}
	}
	return t
}

// tokens is as "12.5 USDC".
func (p *payout) tokens(a token.Amount) string { return a.Tokens(p.coin.Decimals) + " " + p.coin.Token }

// text is as "2 rows, 300 USDC, since 2026-06-28".
func (t tally) text(p *payout) string {
	text := counted(t.rows, "row") + ", " + p.tokens(t.sum)
	if t.first != "" {
		text += ", since " + t.first
	}
	return text
}

// summary shows the payments, with warnings, and asks for consent.
func (p *payout) summary(ctx context.Context, out io.Writer) error {
	do, done, before, ended := "pay", "paid", "paid or pending", "failed before"
	if p.Propose {
		do, done, before, ended = "propose", "proposed", "proposed before", "failed or ended"
	}
	warnings, err := p.compare(ctx)
	if err != nil {
		return fmt.Errorf("nothing was %s: %w", done, err)
	}
	fresh := p.of(func(r *payRow) bool { return r.status == "" })
	paid := p.of(func(r *payRow) bool { return r.status != "" && r.status != "failed" && !over(r.status) })
	places := map[string]bool{}
	elsewhere := p.of(func(r *payRow) bool { places[r.elsewhere] = true; return r.elsewhere != "" })
	fmt.Fprintf(out, "%s: %s of %s on %s\n", p.File, counted(len(p.rows), "row"), p.coin.Token, p.coin.Network)
	if paid.rows > 0 {
		fmt.Fprintf(out, "  %-16s%s; not %s again\n", before, paid.text(p), done)
	}
	if failed := len(p.rows) - fresh.rows - paid.rows; failed > 0 {
		fmt.Fprintf(out, "  %-16s%s, not %s again: use another reference, or a file of its own with --run\n",
			ended, counted(failed, "row"), done)
	}
	for _, batch := range p.failed {
		fmt.Fprintf(out, "  failed before   %s: paid nobody, so its rows are paid again\n", batch)
	}
	if n := len(p.lacking); n > 0 && !p.Propose {
		fmt.Fprintf(out, "  not in the file %s that this run paid (a run may have several files)\n", counted(n, "row"))
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
	if delete(places, ""); elsewhere.rows > 0 {
		fmt.Fprintf(out, "  paid elsewhere  %s: paid, pending or unknown by another run or program; %s\n",
			elsewhere.text(p), strings.Join(slices.Sorted(maps.Keys(places)), ", "))
	}
	twins, changed := p.repeats()
	for _, line := range slices.Concat(twins, changed, warnings) {
		fmt.Fprintln(out, "  "+line)
	}
	switch {
	case p.DryRun:
		return nil
	case !p.Yes:
		return consent(ctx, out)
	case elsewhere.rows > 0 && !p.Again:
		return fmt.Errorf("nothing was %s: another run or program has paid %s, or is about to; use the --run of that "+
			"payout (none if it had none), or add --again to %s them once more", done, counted(elsewhere.rows, "row"), do)
	case len(changed) > 0 && !p.Changed:
		return fmt.Errorf("nothing was %s: this run has %s otherwise; restore or remove it, or add --changed to %s it "+
			"too", done, counted(len(changed), "row"), do)
	case len(twins) > 0 && !p.Duplicates:
		return fmt.Errorf("nothing was %s: the file has %s; remove them, or add --duplicates to %s them too",
			done, counted(len(twins), "repeat"), do)
	}
	return nil
}

// repeats describes the rows to pay that may pay twice. Such a row has the content of an earlier row; or, of a row that
// this run has paid and the file no longer has, the recipient and either the amount or the reference.
func (p *payout) repeats() (twins, changed []string) {
	paid := map[[2]string]string{}
	for _, was := range p.lacking {
		paid[[2]string{was[6], was[7]}] = fmt.Sprintf("a row that this run has as %q", was[9])
		if was[9] != "" {
			paid[[2]string{was[6], "as " + was[9]}] = "a row that this run has with another amount"
		}
	}
	for _, r := range p.rows {
		to := r.to.String()
		earlier := cmp.Or(paid[[2]string{to, r.amount.String()}], paid[[2]string{to, "as " + noFormula(r.reference)}])
		line := fmt.Sprintf("line %d repeats %s: %s to %s", r.line,
			cmp.Or(earlier, fmt.Sprint("line ", r.twin)), p.tokens(r.amount), to)
		if r.status == "" && earlier != "" {
			changed = append(changed, line)
		} else if r.status == "" && r.twin != 0 {
			twins = append(twins, line)
		}
	}
	return twins, changed
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

// compare returns a warning for each row to pay whose address may be mistaken for that of another row, of the file's
// results, or of the newest 1,000 entries of the address book, payments or proposals, as far as the key may read. It
// also notes the rows that another run or program has paid or proposed, by these results, payments and proposals.
func (p *payout) compare(ctx context.Context) (warnings []string, err error) {
	type ends [4]byte
	known, named := map[ends][]token.Address{}, map[token.Address]string{}
	of := func(a token.Address) ends { return ends{a[0], a[1], a[18], a[19]} }
	learn := func(address, name string) {
		if a, err := token.ParseAddress(address); err == nil && named[a] == "" {
			named[a], known[of(a)] = name, append(known[of(a)], a)
		}
	}
	elsewhere := map[[3]string]string{} // places of payments by recipient, whole tokens and reference
	note := func(m remit.Payment, place string) {
		n := 0
		_, _ = fmt.Sscanf(m.Reference, batchReference, &n) // of this run, perhaps of another process
		other := !p.match(m) && m.IdempotencyKey != p.batchKey(n) && strings.EqualFold(m.Asset, p.coin.Asset) &&
			(m.Failure == nil || !slices.Contains(paidNobody, string(m.Failure.Code)))
		for _, e := range append(m.Payments, remit.BatchEntry{To: m.To, Amount: m.Amount, Reference: m.Reference}) {
			if learn(e.To, "paid or proposed before"); other {
				elsewhere[[3]string{e.To, tokens(e.Amount, p.coin.Decimals), noFormula(e.Reference)}] = place
			}
		}
	}
	q := url.Values{"limit": {"100"}}
	err = errors.Join(
		newest(ctx, p, p.api.ListRecipients(ctx, q), func(e remit.Recipient) { learn(e.Address, "your address book") }),
		newest(ctx, p, p.api.List(ctx, q), func(m remit.Payment) { note(m, m.CreatedAt.Format("on "+time.DateOnly)) }),
		newest(ctx, p, p.api.Proposals(ctx, q), func(held remit.Proposal) {
			if !over(string(held.Status)) && held.Status != "released" { // that is a payment
				note(asPayment(held), held.CreatedAt.Format("proposed on "+time.DateOnly))
			}
		}))
	files, _ := filepath.Glob(p.File + ".*.results.csv") // none if the name is a pattern
	for _, file := range append(files, p.File+".results.csv") {
		for _, was := range resultsIn(file) {
			if slices.Contains([]string{"failed", refused, notSent}, was[1]) {
				continue
			}
			learn(was[6], "in the results of this file")
			row, place := [3]string{was[6], tokens(remit.Amount(was[7]), p.coin.Decimals), was[9]}, filepath.Base(file)
			if was[13] != p.coin.Asset { // the list may have lost its asset, unless the user names this one
				row[1] = was[11]
				place = cmp.Or(elsewhere[row], place+" (in "+was[13]+"; add --asset "+p.coin.Token+" to pay it too)")
			}
			own := filepath.Clean(file) == filepath.Clean(p.results())
			if !own && (was[13] == p.coin.Asset || !p.named && p.Asset == "default") {
				elsewhere[row] = place
			}
		}
	}
	for _, was := range p.earlier() { // somebody has agreed to the rows of the run's own results
		delete(elsewhere, [3]string{was[6], tokens(remit.Amount(was[7]), p.coin.Decimals), was[9]})
	}
	for _, r := range p.rows {
		r.before = r.status
		if learn(r.to.String(), fmt.Sprint("line ", r.line)); r.status == "" {
			r.elsewhere = elsewhere[[3]string{r.to.String(), r.amount.Tokens(p.coin.Decimals), noFormula(r.reference)}]
		}
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
	return warnings, err
}

// newest reads the first 1,000 of a list, unless the key may not read it.
func newest[T any](ctx context.Context, p *payout, list iter.Seq2[T, error], read func(T)) error {
	_, err := retried(ctx, p.Patience, func() (n int, err error) {
		for one, err := range list {
			if n++; err != nil {
				return n, err
			}
			if read(one); n == 1000 {
				break
			}
		}
		return n, nil
	})
	if refusal, is := errors.AsType[*remit.Refused](err); err == nil || is && refusal.Status == http.StatusForbidden {
		return nil
	}
	return fmt.Errorf("comparing with what you have paid: %w", err)
}
