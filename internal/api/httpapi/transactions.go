package httpapi

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
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
		if !ownedBy(p, c.caller) || p.State == payment.Prepared {
			return answer{}, store.ErrNotFound
		}
		return answer{status: http.StatusOK, body: shown(c.Context(), payments, p)[0]}, nil
	})
}

func ownedBy(p payment.Payment, caller apikey.Principal) bool {
	return p.Merchant == caller.MerchantID && p.Mode == string(caller.Mode)
}

// A listPage is the body of a list that is read page by page.
type listPage[T any] struct {
	Data       []T     `json:"data"`
	HasMore    bool    `json:"has_more"`
	NextCursor *string `json:"next_cursor"`
}

type transactionList = listPage[payment.Public]

// ListTransactions serves GET /transactions.
func ListTransactions(payments store.Store, assets Assets) Endpoint {
	return endpoint("ListTransactions", func(c *call) (answer, error) {
		f, key, err := readFilter(c, assets)
		if err != nil {
			return answer{}, err
		}
		var list transactionList
		if key != "" {
			list, err = underKey(c.Context(), payments, f, key)
		} else {
			list, err = pageOf(c.Context(), payments, f)
		}
		if err == nil && prefersCSV(c.Header.Values("Accept")) {
			return csv(list)
		}
		return answer{status: http.StatusOK, body: list}, err
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
func csv(l transactionList) (answer, error) {
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

// readFilter reads the query of GET /transactions. A cursor carries the filters
// of its list; a request that names other filters beside it is refused.
func readFilter(c *call, assets Assets) (f store.Filter, key string, err error) {
	q := c.query
	for name := range q.values {
		if q.values["idempotency_key"] != nil && name != "idempotency_key" && name != "limit" && len(q.bad) == 0 {
			q.refuse("idempotency_key", "stands_alone", "Only limit may stand beside it")
		}
	}
	if err := q.err(); err != nil {
		return f, "", err
	}
	merchant, mode := c.caller.MerchantID, string(c.caller.Mode)
	f = store.Filter{
		Merchant: merchant, Mode: mode,
		Status: payment.Status(q.word("status", string(payment.StatusPending), string(payment.StatusConfirmed), string(payment.StatusFailed))),
		After:  q.instant("created_after"), Before: q.instant("created_before"),
		Limit: defaultPage,
	}
	asset, err := q.asset(c.Context(), assets)
	if err != nil {
		return f, "", err
	}
	f.Asset = asset.Coin()
	if sent, ok := q.given("idempotency_key"); ok {
		key = q.idempotencyKey(sent)
	}
	if sent, ok := q.given("reference"); ok {
		if n := utf8.RuneCountInString(sent); n < 1 {
			q.refuse("reference", "string_too_short", "Must not be empty")
		} else if n > payment.MaxReference {
			q.refuse("reference", "string_too_long", "Must have at most 128 characters")
		}
		f.Reference = sent
	}
	if sent, ok := q.given("cursor"); ok {
		var cur cursor
		err := parseCursor(sent, paymentCursors, merchant, mode, &cur)
		switch {
		case err != nil || cur.Limit < 1 || cur.Limit > maxPage:
			q.refuse("cursor", "cursor_invalid", "Must be a next_cursor of this list, unchanged")
		case f.Status != "" && f.Status != cur.Status || f.Reference != "" && f.Reference != cur.Reference ||
			f.Asset != (token.Coin{}) && f.Asset != cur.Asset ||
			!f.After.IsZero() && !f.After.Equal(cur.After) || !f.Before.IsZero() && !f.Before.Equal(cur.Before):
			q.refuse("cursor", "cursor_mismatch", "Belongs to a list with other filters; send it alone")
		default:
			f = cur.filter(merchant, mode)
		}
	}
	f.Limit = q.limit(f.Limit)
	return f, key, q.err()
}

// pageOf returns a page of the history, which may lag a little behind writes.
func pageOf(ctx context.Context, tables store.Store, f store.Filter) (transactionList, error) {
	payments, next, err := tables.List(ctx, f)
	if err != nil {
		return transactionList{}, err
	}
	list := transactionList{Data: shown(ctx, tables, payments...)}
	if n := fitting(list.Data); n < len(list.Data) {
		list.Data, next = list.Data[:n], store.Position{CreatedAt: payments[n-1].CreatedAt, ID: payments[n-1].ID}
	}
	if list.HasMore = !next.IsZero(); list.HasMore {
		list.NextCursor = new(encodeCursor(paymentCursors, f.Merchant, f.Mode, cursorAt(f, next)))
	}
	return list, nil
}

// underKey returns the list of the one payment under an Idempotency-Key. By it a client whose POST got no answer
// learns of its payment, so it reads strongly consistently. A payment that is PREPARED is dispatch.ErrInProgress, one that
// waits in a proposal a *dispatch.OpenError; a key that a proposal's end used up has none.
func underKey(ctx context.Context, payments store.Store, f store.Filter, key string) (transactionList, error) {
	list := transactionList{Data: []payment.Public{}}
	p, err := payments.Payment(ctx, payment.KeyID(f.Merchant, f.Mode, key))
	switch {
	case errors.Is(err, store.ErrNotFound), err == nil && p.State.UsedUp():
		return list, nil
	case err != nil:
		return transactionList{}, err
	case p.State == payment.Proposed:
		return transactionList{}, &dispatch.OpenError{ID: p.ID}
	case p.State == payment.Prepared:
		return transactionList{}, dispatch.ErrInProgress
	}
	p.Mode = f.Mode // a payment found on the chain has no mode yet, but this mode's keys made its ID
	list.Data = shown(ctx, payments, p)
	return list, nil
}
