package dynamo

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"golang.org/x/sync/errgroup"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
)

// maxPage is the largest number of payments on a page (store.Filter.Limit), and of items in one BatchGetItem.
const maxPage = 100

const (
	// bucketLook is the number of index entries that the first request to a bucket
	// reads at most: some 200 bytes each, so that half a read unit pays for them.
	bucketLook = 20
	// firstLook is the first read of a filtered list: 13 kB of each bucket; secondLook the other,
	// of 200 kB. All of it is 3.4 MB: 430 read units, $0.0001, and some 100 ms.
	firstLook, secondLook = 64, 1000
	// bucketLooks is how many requests a page sends to a bucket. Without a filter, the second reads a whole page.
	bucketLooks = 2
	// listWidth is how many buckets are read at once: the SDK keeps ten idle
	// connections to a host (aws/transport/http, DefaultHTTPTransportMaxIdleConnsPerHost).
	listWidth = 9
)

// List implements store.History. The index gives the payments of a page; the payments themselves are read strongly
// consistent, so that a page never shows a status that has passed. A payment that does not decode, or is not of
// f.Status any more, or not of f.Asset, is left out.
func (s *Payments) List(ctx context.Context, f store.Filter) (page []payment.Payment, next store.Position, err error) {
	limit, look := pageLimit(f.Limit), pageLimit(f.Limit)
	if f.Reference != "" && f.Status != "" || f.Asset != (token.Coin{}) { // no list has assets, a reference's no states
		look = maxPage
	}
	page, next, err = pageOf(ctx, s, s.buckets(f, look+1), f.From, limit, look, decodePayment, func(p payment.Payment) bool {
		return (f.Status == "" || p.State.Status() == f.Status) && (f.Asset == (token.Coin{}) || p.Coin() == f.Asset)
	})
	if err != nil {
		err = fmt.Errorf("listing the payments of %s: %w", f.Merchant, err)
	}
	return page, next, err
}

func pageLimit(limit int) int {
	if limit < 1 || limit > maxPage {
		return maxPage
	}
	return limit
}

// pageOf reads a page of at most limit matching items of payments from look entries of buckets behind from.
func pageOf[T any](ctx context.Context, s *Payments, buckets []bucket, from store.Position, limit, look int,
	decode func(attributes) (T, error), matches func(T) bool) (page []T, next store.Position, err error) {
	entries, next, err := s.entries(ctx, buckets, from, look+1)
	if err != nil {
		return nil, next, err
	}
	if len(entries) > look {
		entries, next = entries[:look], entries[look-1]
	}
	keys := make([]primaryKey, len(entries))
	for i, entry := range entries {
		keys[i] = paymentKey(entry.ID)
	}
	items, err := s.batch(ctx, keys)
	if err != nil {
		return nil, next, err
	}
	found := make(map[string]T, len(items))
	for _, item := range items {
		if v, err := decode(item); err == nil && matches(v) {
			found[textOf(item, attrPK)] = v
		}
	}
	page = []T{}
	for i, entry := range entries {
		if len(page) == limit {
			return page, entries[i-1], nil
		}
		if v, ok := found[paymentPrefix+string(entry.ID)]; ok {
			page = append(page, v)
		}
	}
	return page, next, nil
}

// A bucket is the part of a merchant's list that one partition of the index has.
type bucket struct {
	next *dynamodb.QueryInput // reads on; nil once the partition is read to its end
	read []store.Position     // and not taken yet, newest first
	to   store.Position       // of the last entry that was read, matching or not
	sent int                  // requests
}

// entries returns the positions of at most n entries behind from, newest first, merged from all buckets. It takes a
// position only once every bucket is read up to it: no newer one can follow. If there are fewer than n, the list goes
// on from end, zero if it does not.
func (s *Payments) entries(ctx context.Context, buckets []bucket, from store.Position, n int) (found []store.Position,
	end store.Position, err error) {
	for len(buckets) > 0 {
		group, all := errgroup.WithContext(ctx)
		group.SetLimit(listWidth)
		for i := range buckets {
			group.Go(func() error { return s.readOn(all, &buckets[i], from, n) })
		}
		if err := group.Wait(); err != nil {
			return nil, end, err
		}
		for {
			newest, behind := &buckets[0], &bucket{} // of those with nothing left to take but more to read
			for i := range buckets {
				if b := &buckets[i]; len(b.read) > 0 && (len(newest.read) == 0 || b.read[0].After(newest.read[0])) {
					newest = b
				} else if len(b.read) == 0 && b.next != nil && b.to.After(behind.to) {
					behind = b
				}
			}
			none := len(newest.read) == 0 || behind.to.After(newest.read[0])
			if len(found) == n || none && behind.sent%bucketLooks == 0 {
				return found, behind.to, nil
			}
			if none {
				break
			}
			found, newest.read = append(found, newest.read[0]), newest.read[1:]
		}
	}
	return found, end, nil
}

// buckets returns the unread buckets of the list for f, none if no payment can match.
func (s *Payments) buckets(f store.Filter, look int) (all []bucket) {
	if oldest, newest := bounds(f); oldest > newest {
		return nil
	}
	prefix, index, keys := listPrefix(f.Merchant, f.Mode), aws.String(indexMerchant), "list_pk = :list AND list_sk"
	if f.Reference != "" {
		prefix, index, keys = referencePrefix(f.Merchant, f.Mode, f.Reference), nil, "pk = :list AND sk"
	}
	for n := range uint32(ListBuckets) {
		values, filter := attributes{}, ""
		if f.Status != "" && f.Reference == "" {
			if filter = statusFilter(f.Status, values); filter == "" {
				return nil
			}
		}
		all = append(all, s.bucket(index, keys, bucketPK(prefix, n), f, filter, values, look))
	}
	return all
}

// bucket returns the unread bucket of a partition, whose entries may be on f's page and pass a filter.
func (s *Payments) bucket(index *string, keys, pk string, f store.Filter, filter string, values attributes, n int) bucket {
	oldest, newest := bounds(f)
	values[":list"], values[":oldest"], values[":newest"] = text(pk), text(oldest), text(newest)
	in := &dynamodb.QueryInput{
		TableName: &s.name, IndexName: index, ConsistentRead: aws.Bool(index == nil), ScanIndexForward: aws.Bool(false),
		KeyConditionExpression: aws.String(keys + " BETWEEN :oldest AND :newest"), ExpressionAttributeValues: values,
		Limit: aws.Int32(int32(min(n+1, bucketLook))), // f.From may be among them
	}
	if index == nil { // the place of a proposal is in the index too, by another time
		in.ProjectionExpression = aws.String("sk")
	}
	if filter != "" {
		in.FilterExpression, in.ExpressionAttributeNames, in.Limit = &filter, change{when: filter}.render().names, aws.Int32(firstLook)
	}
	return bucket{next: in}
}

// readOn reads a bucket until a position but from is read, or there are no more, or it has had its requests.
func (s *Payments) readOn(ctx context.Context, b *bucket, from store.Position, n int) error {
	for len(b.read) == 0 && b.next != nil && b.sent < bucketLooks {
		out, err := s.db.Query(ctx, b.next)
		if err != nil {
			return err
		}
		for _, item := range out.Items {
			if position, err := positionOf(item); err != nil {
				return err
			} else if position.ID != from.ID || !position.CreatedAt.Equal(from.CreatedAt) {
				b.read = append(b.read, position)
			}
		}
		b.sent++
		b.next.ExclusiveStartKey, b.next.Limit = out.LastEvaluatedKey, aws.Int32(secondLook)
		if b.next.FilterExpression == nil {
			b.next.Limit = aws.Int32(int32(n))
		}
		if out.LastEvaluatedKey == nil {
			b.next = nil
		} else if b.to, err = positionOf(out.LastEvaluatedKey); err != nil {
			return err
		}
	}
	return nil
}

// positionOf reads the position of an entry of the index, or of the list of a reference.
func positionOf(item attributes) (store.Position, error) {
	at, id, _ := strings.Cut(cmp.Or(textOf(item, attrListSK), textOf(item, attrSK)), "#")
	createdAt, err := time.Parse(time.RFC3339Nano, at)
	return store.Position{CreatedAt: createdAt, ID: payment.ID(id)}, err
}

func (s *Payments) Entries(ctx context.Context) iter.Seq2[store.Entry, error] {
	items := s.scan(ctx, "begins_with(pk, :payment) OR begins_with(pk, :tx) AND attribute_not_exists(payment_id)",
		attributes{":payment": text(paymentPrefix), ":tx": text(txPrefix)})
	return func(yield func(store.Entry, error) bool) {
		for item, err := range items {
			if err != nil {
				yield(store.Entry{}, err)
				return
			}
			if !yield(entryOf(item)) {
				return
			}
		}
	}
}

func entryOf(item attributes) (store.Entry, error) {
	if hash, noop := strings.CutPrefix(textOf(item, attrPK), txPrefix); noop {
		h, err := chain.ParseHash(hash)
		if err != nil {
			err = fmt.Errorf("%w: %s", store.ErrUnreadable, txPrefix+hash)
		}
		return store.Entry{Noop: h}, err
	}
	p, err := decodePayment(item)
	return store.Entry{Payment: p}, err
}

// bounds returns the range of list_sk that may be on the page, both ends included. The only payment at an end is
// f.From: '$' sorts behind '#' and every id, and no list_sk is a time without an id.
func bounds(f store.Filter) (oldest, newest string) {
	oldest, newest = "0", "~"
	if !f.After.IsZero() {
		oldest = instant(f.After) + "$"
	}
	if !f.Before.IsZero() {
		newest = instant(f.Before)
	}
	if !f.From.CreatedAt.IsZero() {
		newest = min(newest, listSK(f.From.CreatedAt, string(f.From.ID)))
	}
	return oldest, newest
}

// statusFilter returns the condition that an entry's state has the status, empty if no state has it.
func statusFilter(status payment.Status, values attributes) string {
	var names []string
	for _, state := range payment.States() {
		if state.Status() == status {
			name := ":" + strings.ToLower(string(state))
			names = append(names, name)
			values[name] = text(state)
		}
	}
	if names == nil {
		return ""
	}
	return "#state IN (" + strings.Join(names, ", ") + ")"
}
