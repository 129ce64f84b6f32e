package dynamo

import (
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"remit/internal/payment"
	"remit/internal/store"
)

// maxPage is the most payments a page holds (store.Filter.Limit), and the
// most items one BatchGetItem may ask for.
const maxPage = 100

// firstLook is how many entries of the index the first request looks at when
// most may be of another status: some 200 kB. The requests after it take the
// megabyte that a query gives at most, so a rare status is found in a history
// of a million payments with some 200 of them.
const firstLook = 1000

// List implements store.History: the index says which payments a page has, and
// the items themselves are read strongly consistent, so a page shows none older
// than its status. What does not decode, or has left the status that was asked
// for, is left out.
func (s *Payments) List(ctx context.Context, f store.Filter) (page []payment.Payment, more bool, err error) {
	if f.Limit < 1 || f.Limit > maxPage {
		f.Limit = maxPage
	}
	page = []payment.Payment{}
	for {
		entries, err := s.entries(ctx, f, f.Limit-len(page)+1)
		if err != nil {
			return nil, false, fmt.Errorf("listing the payments of %s: %w", f.Merchant, err)
		}
		more = len(entries) > f.Limit-len(page)
		entries = entries[:min(len(entries), f.Limit-len(page))]
		found, err := s.payments(ctx, entries)
		if err != nil {
			return nil, false, fmt.Errorf("listing the payments of %s: %w", f.Merchant, err)
		}
		for _, entry := range entries {
			if p, ok := found[entry.ID]; ok && (f.Status == "" || p.State.Status() == f.Status) {
				page = append(page, p)
			}
		}
		if !more || len(page) == f.Limit {
			return page, more, nil
		}
		f.From = entries[len(entries)-1]
	}
}

// entries returns the places of at most n payments that match, newest first.
func (s *Payments) entries(ctx context.Context, f store.Filter, n int) ([]store.Position, error) {
	oldest, newest := bounds(f)
	if oldest > newest {
		return nil, nil
	}
	in := &dynamodb.QueryInput{
		TableName:              &s.table,
		IndexName:              aws.String(indexMerchant),
		KeyConditionExpression: aws.String("list_pk = :list AND list_sk BETWEEN :oldest AND :newest"),
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":list": text(listPK(f.Merchant, f.Mode)), ":oldest": text(oldest), ":newest": text(newest),
		},
		ScanIndexForward: aws.Bool(false),
		Limit:            aws.Int32(int32(n + 1)), // the last page's end may be among them
	}
	if f.Status != "" {
		filter := statusFilter(f.Status, in.ExpressionAttributeValues)
		if filter == "" {
			return nil, nil
		}
		in.FilterExpression = &filter
		in.ExpressionAttributeNames = stateName
		in.Limit = aws.Int32(firstLook)
	}
	var places []store.Position
	for {
		out, err := s.db.Query(ctx, in)
		if err != nil {
			return nil, err
		}
		for _, item := range out.Items {
			sk, _ := item[attrListSK].(*types.AttributeValueMemberS)
			at, id, _ := strings.Cut(sk.Value, "#")
			createdAt, err := parseInstant(at)
			if err != nil {
				return nil, err
			}
			place := store.Position{CreatedAt: createdAt, ID: payment.ID(id)}
			if place.ID == f.From.ID && createdAt.Equal(f.From.CreatedAt) {
				continue
			}
			if places = append(places, place); len(places) == n {
				return places, nil
			}
		}
		if out.LastEvaluatedKey == nil {
			return places, nil
		}
		in.ExclusiveStartKey, in.Limit = out.LastEvaluatedKey, nil
	}
}

// bounds returns the first and the last place that may be on the page. No
// payment lies at either but the last of the page before: '$' sorts behind '#'
// and everything after it, and nothing lies at a time without an ID.
func bounds(f store.Filter) (oldest, newest string) {
	oldest, newest = "0", "~"
	if !f.After.IsZero() {
		oldest = instantText(f.After) + "$"
	}
	if !f.Before.IsZero() {
		newest = instantText(f.Before)
	}
	if !f.From.CreatedAt.IsZero() {
		newest = min(newest, listSK(f.From.CreatedAt, string(f.From.ID)))
	}
	return oldest, newest
}

// statusFilter is the condition that an entry's state has the status, empty if
// no state has.
func statusFilter(status payment.Status, values map[string]types.AttributeValue) string {
	var names []string
	for _, state := range payment.States() {
		if state.Status() == status {
			name := ":" + strings.ToLower(string(state))
			names = append(names, name)
			values[name] = text(string(state))
		}
	}
	if names == nil {
		return ""
	}
	return "#state IN (" + strings.Join(names, ", ") + ")"
}

// payments reads payments by ID. Those that do not decode are left out.
func (s *Payments) payments(ctx context.Context, entries []store.Position) (map[payment.ID]payment.Payment, error) {
	found := make(map[payment.ID]payment.Payment, len(entries))
	if len(entries) == 0 {
		return found, nil
	}
	want := types.KeysAndAttributes{ConsistentRead: aws.Bool(true)}
	for _, e := range entries {
		want.Keys = append(want.Keys, paymentKey(string(e.ID)))
	}
	ask := map[string]types.KeysAndAttributes{s.table: want}
	for len(ask) > 0 {
		out, err := s.db.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{RequestItems: ask})
		if err != nil {
			return nil, err
		}
		for _, item := range out.Responses[s.table] {
			if p, err := decodePayment(item); err == nil {
				found[p.ID] = p
			}
		}
		ask = out.UnprocessedKeys
	}
	return found, nil
}
