package httpapi

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/payments/dispatch"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
)

const (
	maxPage     = 100
	defaultPage = 20
)

// GetTransaction serves GET /transaction/{tx_hash}.
func GetTransaction(payments store.Store) Endpoint {
	return endpoint("GetTransaction", func(c *call) (answer, error) {
		hash, err := chain.ParseHash(c.params["tx_hash"])
		if err != nil {
			return answer{}, store.ErrNotFound
		}
		p, err := payments.PaymentByHash(c.Context(), hash)
		if err != nil {
			return answer{}, err
		}
		if p.Merchant != c.caller.MerchantID || p.Mode != string(c.caller.Mode) || p.State == payment.Prepared {
			return answer{}, store.ErrNotFound
		}
		return ok(shown(c.Context(), payments, p)[0], nil)
	})
}

// ListTransactions serves GET /transactions: a page of the history, which may lag a little behind writes, or the
// payment under a key.
func ListTransactions(payments store.Store, assets Assets) Endpoint {
	return endpoint("ListTransactions", func(c *call) (answer, error) {
		sent, err := readFilters(c, assets)
		if err != nil {
			return answer{}, err
		}
		list, err := paged(c, "cursor 1", sent, func(at cursor) ([]payment.Payment, position, error) {
			f := store.Filter{Merchant: c.caller.MerchantID, Mode: string(c.caller.Mode),
				Status: payment.Status(at.Status), Reference: at.Reference, Asset: at.Asset, After: at.After,
				Before: at.Before, Limit: at.Limit, From: store.Position{CreatedAt: at.At, ID: payment.ID(at.ID)}}
			if at.Key != "" {
				found, err := underKey(c.Context(), payments, f, at.Key)
				return found, position{}, err
			}
			page, next, err := payments.List(c.Context(), f)
			return page, positionOf(next.CreatedAt, next.ID), err
		}, func(page []payment.Payment) []payment.Public { return shown(c.Context(), payments, page...) },
			func(p payment.Payment) position { return positionOf(p.CreatedAt, p.ID) })
		if err == nil && prefersCSV(c.Header.Values("Accept")) {
			return csv(list)
		}
		return ok(list, err)
	})
}

var qvalue = regexp.MustCompile(`^(0(\.[0-9]{0,3})?|1(\.0{0,3})?)$`)

// prefersCSV reports whether the lines of an Accept header rank text/csv above JSON. The most specific range of a
// type decides (RFC 9110, section 12.5.1).
func prefersCSV(accept []string) bool {
	ranks := map[string]float64{}
	for one := range strings.SplitSeq(strings.Join(accept, ","), ",") {
		media, parameters, _ := strings.Cut(one, ";")
		media = strings.ToLower(strings.TrimSpace(media))
		rank := 1.0
		for parameter := range strings.SplitSeq(parameters, ";") {
			if name, value, _ := strings.Cut(strings.TrimSpace(parameter), "="); !strings.EqualFold(strings.TrimSpace(name), "q") {
				continue
			} else if rank = 0; qvalue.MatchString(value) {
				rank, _ = strconv.ParseFloat(value, 64)
			}
		}
		ranks[media] = max(ranks[media], rank)
	}
	of := func(ranges ...string) float64 {
		for _, r := range ranges {
			if rank, ok := ranks[r]; ok {
				return rank
			}
		}
		return 0
	}
	return of("text/csv", "text/*", "*/*") > of("application/json", "application/*", "*/*")
}

// csv answers with the page as CSV. The link to the next page is relative to the
// address of this one, which the function does not know in full behind API Gateway.
func csv(l listPage[payment.Public]) (answer, error) {
	var text bytes.Buffer
	if err := payment.CSV(&text, true, l.Data...); err != nil {
		return answer{}, err
	}
	a := answer{status: http.StatusOK, body: page{"text/csv; charset=utf-8", "no-store", text.Bytes()}}
	if l.NextCursor != nil {
		a.header = map[string]string{"Link": "<?cursor=" + *l.NextCursor + `>; rel="next"`}
	}
	return a, nil
}

func readFilters(c *call, assets Assets) (f filters, err error) {
	q := c.query
	_, byKey := q.object.Member("idempotency_key")
	for _, m := range q.object.Members {
		if byKey && m.Name != "idempotency_key" && m.Name != "limit" && len(q.bad) == 0 {
			q.refuse("idempotency_key", "stands_alone", "Only limit may stand beside it")
		}
	}
	if err := q.err(); err != nil {
		return f, err
	}
	f = filters{
		Status: q.word("status", string(payment.StatusPending), string(payment.StatusConfirmed), string(payment.StatusFailed)),
		After:  q.instant("created_after"), Before: q.instant("created_before"), Key: q.idempotencyKey(),
	}
	if _, ok := q.given("asset"); ok {
		all, err := assets.read(c.Context())
		if err != nil {
			return f, err
		}
		f.Asset = q.asset(all).Coin()
	}
	f.Reference, _ = q.text("reference", 1, payment.MaxReference)
	return f, nil
}

// underKey returns the one payment under an Idempotency-Key. By it a client whose POST got no answer learns of its
// payment, so it reads strongly consistently. A payment that is PREPARED is dispatch.ErrInProgress, one that waits in a
// proposal a *dispatch.OpenError; a key that a proposal's end used up has none.
func underKey(ctx context.Context, payments store.Store, f store.Filter, key string) ([]payment.Payment, error) {
	p, err := payments.Payment(ctx, payment.KeyID(f.Merchant, f.Mode, key))
	switch {
	case errors.Is(err, store.ErrNotFound), err == nil && p.State.UsedUp():
		return nil, nil
	case err != nil:
		return nil, err
	case p.State == payment.Proposed:
		return nil, &dispatch.OpenError{ID: p.ID}
	case p.State == payment.Prepared:
		return nil, dispatch.ErrInProgress
	}
	p.Mode = f.Mode // a payment found on the chain has no mode yet, but this mode's keys made its ID
	return []payment.Payment{p}, nil
}
