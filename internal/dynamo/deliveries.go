package dynamo

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
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
		item, err := encodeDelivery(d)
		if err != nil {
			return err
		}
		puts[i].Put = &types.Put{TableName: &s.table, Item: item, ConditionExpression: aws.String("attribute_not_exists(pk)")}
	}
	if len(puts) > 1 {
		reasons, err := s.transact(ctx, puts...)
		if err == nil || reasons == nil {
			return err
		}
	}
	for i, p := range puts {
		_, err := s.db.PutItem(ctx, &dynamodb.PutItemInput{
			TableName: p.Put.TableName, Item: p.Put.Item, ConditionExpression: p.Put.ConditionExpression,
		}, conflicts)
		if _, there := refused(err); err != nil && !there {
			return fmt.Errorf("putting %s: %w", ds[i].Delivery, err)
		}
	}
	return nil
}

// unprocessedTries is the number of times that a batch is read before the items
// that DynamoDB left out are an error.
const unprocessedTries = 4

// Load implements webhook.DeliveryStore with one batch of two items.
func (s *Webhooks) Load(ctx context.Context, r webhook.Ref) (webhook.Endpoint, webhook.Delivery, error) {
	e := webhook.Endpoint{Owner: r.Owner, ID: r.Endpoint, Status: webhook.Deleted}
	var d webhook.Delivery
	wanted := map[string]types.KeysAndAttributes{s.table: {
		ConsistentRead: aws.Bool(true),
		Keys:           []attributes{endpointKey(r.Owner, r.Endpoint), deliveryKey(r)},
	}}
	found := false
	for try := 0; len(wanted) > 0; try++ {
		if try == unprocessedTries {
			return e, d, fmt.Errorf("reading %s: %w", r.Delivery, errThrottled)
		}
		out, err := s.db.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{RequestItems: wanted})
		if err != nil {
			return e, d, fmt.Errorf("reading %s: %w", r.Delivery, err)
		}
		for _, item := range out.Responses[s.table] {
			sk, _ := item[attrSK].(*types.AttributeValueMemberS)
			if sk != nil && strings.HasPrefix(sk.Value, endpointPrefix) {
				e, err = decodeEndpoint(item)
			} else {
				d, err = decodeDelivery(item)
				found = true
			}
			if err != nil {
				return e, d, err
			}
		}
		wanted = out.UnprocessedKeys
	}
	if !found {
		return e, d, webhook.ErrDeliveryNotFound
	}
	return e, d, nil
}

// errThrottled reports that DynamoDB left out items of a batch at every try.
var errThrottled = errors.New("throttled")

// Record implements webhook.DeliveryStore with one conditional update, which
// appends the new attempts.
func (s *Webhooks) Record(ctx context.Context, d webhook.Delivery, attempts int) (webhook.Delivery, error) {
	added, err := attributevalue.Marshal(postItems(d.Attempts[min(attempts, len(d.Attempts)):]))
	if err != nil {
		return webhook.Delivery{}, fmt.Errorf("encoding %s: %w", d.Delivery, err)
	}
	set := "SET #status = :status, attempt_count = :count, attempts = list_append(if_not_exists(attempts, :none), :added)"
	var remove []string
	values := attributes{
		":status": text(string(d.Status)), ":count": number(uint64(len(d.Attempts))), ":read": number(uint64(attempts)),
		":added": added, ":none": &types.AttributeValueMemberL{}, ":pending": text(string(webhook.Pending)),
	}
	for name, value := range map[string]string{attrNextAttemptAt: instantText(d.NextAttemptAt), attrShard: shardOf(d)} {
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
	_, err = s.db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName:                           &s.table,
		Key:                                 deliveryKey(d.Ref),
		UpdateExpression:                    &set,
		ConditionExpression:                 &condition,
		ExpressionAttributeNames:            map[string]string{"#status": "status", "#shard": attrShard, "#next_attempt_at": attrNextAttemptAt},
		ExpressionAttributeValues:           values,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}, conflicts)
	if item, ok := refused(err); ok {
		return unrecorded(item, d)
	}
	if err != nil {
		return webhook.Delivery{}, fmt.Errorf("recording %s: %w", d.Delivery, err)
	}
	return d, nil
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
	for item, err := range query(ctx, s.db, &dynamodb.QueryInput{
		TableName:              &s.table,
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
