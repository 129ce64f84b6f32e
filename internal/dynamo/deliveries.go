package dynamo

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"remit/internal/webhook"
)

// AddDeliveries implements webhook.DeliveryStore. One delivery is put by itself,
// several by one transaction, which is one call for any number of them. When the
// event is published again, that transaction finds some of them stored and fails;
// then they are put one by one.
func (s *Webhooks) AddDeliveries(ctx context.Context, ds []webhook.Delivery) error {
	puts := make([]types.TransactWriteItem, len(ds))
	for i, d := range ds {
		puts[i] = s.putAbsent(encodeDelivery(d), nil).TransactWriteItem
	}
	if len(puts) > 1 {
		_, err := s.db.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: puts}, conflicts)
		if _, canceled := errors.AsType[*types.TransactionCanceledException](err); !canceled {
			return err
		}
	}
	for i, p := range puts {
		_, err := s.db.PutItem(ctx, &dynamodb.PutItemInput{
			TableName: p.Put.TableName, Item: p.Put.Item, ConditionExpression: p.Put.ConditionExpression,
		}, conflicts)
		if err := outcome(err, nil, "putting "+ds[i].Delivery); err != nil {
			return err
		}
	}
	return nil
}

// Load implements webhook.DeliveryStore with one batch of two items.
func (s *Webhooks) Load(ctx context.Context, r webhook.Ref) (webhook.Endpoint, webhook.Delivery, error) {
	e := webhook.Endpoint{Owner: r.Owner, ID: r.Endpoint, Status: webhook.Deleted}
	var d webhook.Delivery
	items, err := s.batch(ctx, []primaryKey{endpointKey(r.Owner, r.Endpoint), deliveryKey(r)})
	if err != nil {
		return e, d, fmt.Errorf("reading %s: %w", r.Delivery, err)
	}
	for _, item := range items {
		if sk, _ := item[attrSK].(*types.AttributeValueMemberS); sk != nil && strings.HasPrefix(sk.Value, endpointPrefix) {
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
// appends the new attempts.
func (s *Webhooks) Record(ctx context.Context, d webhook.Delivery, attempts int) (webhook.Delivery, error) {
	added := encodeList(postItems(d.Attempts[min(attempts, len(d.Attempts)):]))
	set := "SET #status = :status, attempt_count = :count, attempts = list_append(if_not_exists(attempts, :none), :added)"
	var remove []string
	values := attributes{
		":status": text(string(d.Status)), ":count": number(uint64(len(d.Attempts))), ":read": number(uint64(attempts)),
		":added": added, ":none": &types.AttributeValueMemberL{}, ":pending": text(string(webhook.Pending)),
	}
	for name, value := range map[string]string{attrNextAttemptAt: instant(d.NextAttemptAt), attrShard: shardOf(d)} {
		if value == "" {
			remove = append(remove, "#"+name)
			continue
		}
		set += ", #" + name + " = :" + name
		values[":"+name] = text(value)
	}
	if len(remove) > 0 {
		set += " REMOVE " + strings.Join(remove, ", ")
	}
	condition := "attempt_count = :read AND #status = :pending"
	if d.Status == webhook.Delivered {
		condition = "attempt_count = :read AND #status <> :status"
		delete(values, ":pending")
	}
	_, err := s.update(ctx, &dynamodb.UpdateItemInput{
		Key:                                 deliveryKey(d.Ref),
		UpdateExpression:                    &set,
		ConditionExpression:                 &condition,
		ExpressionAttributeNames:            map[string]string{"#status": "status", "#shard": attrShard, "#next_attempt_at": attrNextAttemptAt},
		ExpressionAttributeValues:           values,
		ReturnValuesOnConditionCheckFailure: allOld,
	})
	if item, ok := refused(err); ok {
		return unrecorded(item, d)
	}
	return d, outcome(err, nil, "recording "+d.Delivery)
}

// unrecorded judges the item that did not meet Record's condition. d itself,
// stored by a call whose answer the SDK lost, is a success; another delivery
// record is ErrConflict.
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

// Deliveries implements webhook.DeliveryStore: ids sort by time.
func (s *Webhooks) Deliveries(ctx context.Context, o webhook.Owner, endpoint string, from, to time.Time, limit int) ([]webhook.Delivery, error) {
	list := []webhook.Delivery{}
	end := "dlv_g" // after every digit
	if !to.IsZero() {
		end = webhook.FirstID(to)
	}
	first := webhook.FirstID(from)
	if first >= end || limit <= 0 {
		return list, nil
	}
	for item, err := range s.query(ctx, &dynamodb.QueryInput{
		KeyConditionExpression: aws.String("pk = :pk AND sk BETWEEN :first AND :end"),
		ExpressionAttributeValues: attributes{
			":pk": text(logPK(o, endpoint)), ":first": text(first), ":end": text(end),
		},
		ProjectionExpression: aws.String("pk, sk, event_id, event_type, event_at, #status, attempts, " +
			"attempt_count, next_attempt_at, #shard, created_at"),
		ExpressionAttributeNames: map[string]string{"#status": "status", "#shard": attrShard}, // reserved words
		ScanIndexForward:         aws.Bool(false),
		ConsistentRead:           aws.Bool(true),
		Limit:                    aws.Int32(int32(min(limit+1, 1000))), // one more, since end is not listed
	}) {
		if err != nil {
			return nil, fmt.Errorf("querying the deliveries of %s: %w", endpoint, err)
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

// Due implements webhook.DueStore with one query per shard of the due index.
func (s *Webhooks) Due(ctx context.Context, now time.Time, limit int) ([]webhook.Due, error) {
	due := []webhook.Due{}
	if limit < 1 {
		return due, nil
	}
	var errs []error
	for n := range deliveryShards {
		found := 0
		for item, err := range s.query(ctx, &dynamodb.QueryInput{
			IndexName:                 aws.String(indexDue),
			KeyConditionExpression:    aws.String("#shard = :shard AND next_attempt_at <= :now"),
			ExpressionAttributeNames:  map[string]string{"#shard": attrShard}, // reserved word
			ExpressionAttributeValues: attributes{":shard": text(fmt.Sprint(n)), ":now": text(instant(now))},
			Limit:                     aws.Int32(int32(limit)),
		}) {
			if err != nil {
				errs = append(errs, fmt.Errorf("querying shard %d: %w", n, err))
				break
			}
			d, err := decodeDelivery(item) // but for its keys it is empty
			if err != nil {
				errs = append(errs, err)
				continue
			}
			due = append(due, webhook.Due{Ref: d.Ref, At: d.NextAttemptAt})
			if found++; found == limit {
				break
			}
		}
	}
	slices.SortStableFunc(due, func(a, b webhook.Due) int { return a.At.Compare(b.At) })
	return due[:min(limit, len(due))], errors.Join(errs...)
}

// Unpark implements webhook.DueStore. It removes the shard, and with it the item
// from the due index.
func (s *Webhooks) Unpark(ctx context.Context, d webhook.Due) error {
	_, err := s.update(ctx, &dynamodb.UpdateItemInput{
		Key:                       deliveryKey(d.Ref),
		UpdateExpression:          aws.String("REMOVE #shard"),
		ConditionExpression:       aws.String("attribute_exists(#shard) AND next_attempt_at = :at"),
		ExpressionAttributeNames:  map[string]string{"#shard": attrShard}, // reserved word
		ExpressionAttributeValues: attributes{":at": text(instant(d.At))},
	})
	return outcome(err, nil, "unparking "+d.Delivery)
}
