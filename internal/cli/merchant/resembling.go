package merchant

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"slices"

	"github.com/remit-payouts/remit/internal/evm/token"
	remit "github.com/remit-payouts/remit/sdk/go"
)

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
