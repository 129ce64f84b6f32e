package dynamo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/remit-payouts/remit/internal/merchants/webhook"
)

func (s *Webhooks) AddDelivery(ctx context.Context, d webhook.Delivery) error {
	return s.make(ctx, create(encodeDelivery(d), webhook.FitsDelivery(d)), nil, "putting "+d.Delivery)
}

func (s *Webhooks) Load(ctx context.Context, r webhook.Ref) (webhook.Endpoint, webhook.Delivery, error) {
	e := webhook.Endpoint{Owner: r.Owner, ID: r.Endpoint, Status: webhook.Deleted}
	var d webhook.Delivery
	items, err := s.batch(ctx, []primaryKey{endpointKey(r.Owner, r.Endpoint), deliveryKey(r)})
	if err != nil {
		return e, d, fmt.Errorf("reading %s: %w", r.Delivery, err)
	}
	for _, item := range items {
		if strings.HasPrefix(textOf(item, attrSK), endpointPrefix) {
			e, err = decodeEndpoint(item)
		} else {
			d, err = decodeDelivery(item)
		}
		if err != nil {
			return e, d, err
		}
	}
	if d.Delivery == "" {
		return e, d, webhook.ErrDeliveryNotFound
	}
	return e, d, nil
}

// Record implements webhook.DeliveryStore with one conditional update, which
// appends the new attempts. Of a first attempt it makes the item if there is none.
func (s *Webhooks) Record(ctx context.Context, d webhook.Delivery, attempts int) (webhook.Delivery, error) {
	item := encodeDelivery(d)
	c := change{
		fits: webhook.FitsDelivery(d), key: deliveryKey(d.Ref),
		set:  pick(item, "status", "attempt_count", attrNextAttemptAt, attrShard, "ended_at"),
		do:   "SET attempts = list_append(if_not_exists(attempts, :none), :added)",
		when: "attempt_count = :read AND #status = :open",
		values: args{
			":read": attempts, ":added": encodeValue(postItems(d.Attempts[min(attempts, len(d.Attempts)):])),
			":none": &types.AttributeValueMemberL{}, ":open": webhook.Pending,
		},
	}
	if d.Status == webhook.Delivered {
		c.when, c.values[":open"] = "attempt_count = :read AND #status <> :open", text(d.Status)
	}
	if attempts == 0 {
		c.when = "attribute_not_exists(pk) OR " + c.when
		maps.Copy(c.set, pick(item, deliveryFixed...))
	}
	_, err := s.apply(ctx, c)
	if item, ok := refused(err); ok {
		return unrecorded(item, d)
	}
	return d, outcome(err, nil, "recording "+d.Delivery)
}

// unrecorded judges the item that did not meet Record's condition. d itself, stored by a call whose answer the SDK
// lost, is a success; another delivery record is ErrConflict.
func unrecorded(item attributes, d webhook.Delivery) (webhook.Delivery, error) {
	if item == nil {
		return webhook.Delivery{}, webhook.ErrDeliveryNotFound
	}
	stored, err := decodeDelivery(item)
	if err != nil {
		return webhook.Delivery{}, err
	}
	if stored.Status == d.Status && reflect.DeepEqual(stored.Attempts, d.Attempts) {
		return stored, nil
	}
	return stored, webhook.ErrConflict
}

func (s *Webhooks) Deliveries(ctx context.Context, o webhook.Owner, endpoint string, from, to time.Time, limit int) ([]webhook.Delivery,
	error) {
	list := []webhook.Delivery{}
	end := "dlv_g" // after every digit
	if !to.IsZero() {
		end = webhook.FirstID(to)
	}
	first := webhook.FirstID(from)
	if first >= end || limit <= 0 {
		return list, nil
	}
	for item, err := range s.query(ctx, "querying the deliveries of "+endpoint, &dynamodb.QueryInput{
		KeyConditionExpression: aws.String("pk = :pk AND sk BETWEEN :first AND :end"),
		ExpressionAttributeValues: attributes{
			":pk": text(logPK(o, endpoint)), ":first": text(first), ":end": text(end),
		},
		ProjectionExpression: aws.String("pk, sk, event_id, event_type, event_at, #status, attempts, " +
			"attempt_count, next_attempt_at, #shard, created_at, ended_at"),
		ExpressionAttributeNames: map[string]string{"#status": "status", "#shard": attrShard}, // reserved words
		ScanIndexForward:         aws.Bool(false),
		ConsistentRead:           aws.Bool(true),
		Limit:                    aws.Int32(int32(min(limit+1, 1000))), // one more, since end is not listed
	}) {
		if err != nil {
			return nil, err
		}
		d, err := decodeDelivery(item)
		if err != nil {
			return nil, err
		}
		if d.Delivery != end {
			list = append(list, d)
		}
		if len(list) == limit {
			break
		}
	}
	return list, nil
}

// Due implements webhook.DueStore: a query of each shard of the due index, and one from the other end if it has more.
func (s *Webhooks) Due(ctx context.Context, now time.Time, limit int) ([]webhook.Due, error) {
	due := []webhook.Due{}
	if limit < 1 {
		return due, nil
	}
	var errs []error
	half := limit - limit/2
	for n := range deliveryShards {
		oldest, err := s.shard(ctx, n, now, half, true)
		errs, due = append(errs, err), append(due, oldest...)
		if len(oldest) == half {
			newest, err := s.shard(ctx, n, now, half, false)
			errs, due = append(errs, err), append(due, newest...)
		}
	}
	slices.SortFunc(due, func(a, b webhook.Due) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Ref.String(), b.Ref.String()))
	})
	return webhook.Ends(slices.Compact(due), limit), errors.Join(errs...)
}

// shard returns at most limit due deliveries from one end of a shard of the due index,
// also with an error. One that does not decode is an error, and hides no other.
func (s *Webhooks) shard(ctx context.Context, n int, now time.Time, limit int, oldest bool) ([]webhook.Due, error) {
	var due []webhook.Due
	var errs []error
	for item, err := range s.query(ctx, fmt.Sprint("querying shard ", n), &dynamodb.QueryInput{
		IndexName:                 aws.String(indexDue),
		KeyConditionExpression:    aws.String("#shard = :shard AND next_attempt_at <= :now"),
		ExpressionAttributeNames:  map[string]string{"#shard": attrShard}, // reserved word
		ExpressionAttributeValues: attributes{":shard": text(fmt.Sprint(n)), ":now": text(instant(now))},
		ScanIndexForward:          &oldest,
		Limit:                     aws.Int32(int32(limit)),
	}) {
		if err != nil {
			return due, errors.Join(append(errs, err)...)
		}
		d, err := decodeDelivery(item) // but for its keys it is empty
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if due = append(due, webhook.Due{Ref: d.Ref, At: d.NextAttemptAt}); len(due) == limit {
			break
		}
	}
	return due, errors.Join(errs...)
}

// Unpark implements webhook.DueStore. It removes the shard, and with it the item from the due index.
func (s *Webhooks) Unpark(ctx context.Context, d webhook.Due) error {
	return s.make(ctx, change{key: deliveryKey(d.Ref), still: args{attrNextAttemptAt: d.At},
		when: "attribute_exists(#shard)", set: args{attrShard: nil}}, nil, "unparking "+d.Delivery)
}
