package dynamo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"remit/internal/webhook"
)

// Due implements webhook.DueStore with one query per shard of the due index.
func (s *Webhooks) Due(ctx context.Context, now time.Time, limit int) ([]webhook.Due, error) {
	due := []webhook.Due{}
	if limit < 1 {
		return due, nil
	}
	var errs []error
	for n := range deliveryShards {
		found := 0
		for item, err := range query(ctx, s.db, &dynamodb.QueryInput{
			TableName:                 &s.table,
			IndexName:                 aws.String(indexDue),
			KeyConditionExpression:    aws.String("#shard = :shard AND next_attempt_at <= :now"),
			ExpressionAttributeNames:  map[string]string{"#shard": attrShard}, // reserved word
			ExpressionAttributeValues: attributes{":shard": text(fmt.Sprint(n)), ":now": instant(now)},
			Limit:                     aws.Int32(int32(limit)),
		}) {
			if err != nil {
				errs = append(errs, fmt.Errorf("querying shard %d: %w", n, err))
				break
			}
			d, err := decodeDue(item)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			due = append(due, d)
			if found++; found == limit {
				break
			}
		}
	}
	slices.SortStableFunc(due, func(a, b webhook.Due) int { return a.At.Compare(b.At) })
	return due[:min(limit, len(due))], errors.Join(errs...)
}

func decodeDue(item attributes) (webhook.Due, error) {
	var it deliveryItem
	if err := attributevalue.UnmarshalMap(item, &it); err != nil {
		return webhook.Due{}, fmt.Errorf("decoding a due delivery: %w", err)
	}
	ref, err := parseDeliveryKey(it.PK, it.SK)
	if err != nil {
		return webhook.Due{}, fmt.Errorf("decoding a due delivery: %w", err)
	}
	at, err := parseInstant(it.NextAttemptAt)
	if err != nil {
		return webhook.Due{}, fmt.Errorf("decoding %s: %w", it.SK, err)
	}
	return webhook.Due{Ref: ref, At: at}, nil
}

// Unpark implements webhook.DueStore. It removes the shard, and with it the item
// from the due index.
func (s *Webhooks) Unpark(ctx context.Context, d webhook.Due) error {
	_, err := s.db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName:                 &s.table,
		Key:                       deliveryKey(d.Ref),
		UpdateExpression:          aws.String("REMOVE #shard"),
		ConditionExpression:       aws.String("attribute_exists(#shard) AND next_attempt_at = :at"),
		ExpressionAttributeNames:  map[string]string{"#shard": attrShard}, // reserved word
		ExpressionAttributeValues: attributes{":at": instant(d.At)},
	}, conflicts)
	if _, moved := refused(err); err != nil && !moved {
		return fmt.Errorf("unparking %s: %w", d.Delivery, err)
	}
	return nil
}
