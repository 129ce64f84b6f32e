package dynamo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"remit/internal/apikey"
)

// Replace implements apikey.Store with one transaction of two items: the
// successor, and the old key with its expiry shortened. If the old key expires
// earlier anyway, a second transaction only checks its merchant. An expiry never
// moves to a later time, so the second transaction need not check it again.
func (s *APIKeys) Replace(ctx context.Context, merchantID string, hash apikey.Hash, at time.Time, successor apikey.Key) error {
	shorten := types.TransactWriteItem{Update: &types.Update{
		TableName:        &s.table,
		Key:              apiKeyKey(hash),
		UpdateExpression: aws.String("SET expires_at = :at"),
		ConditionExpression: aws.String("merchant_id = :m AND " +
			"(attribute_not_exists(expires_at) OR expires_at > :at)"),
		ExpressionAttributeValues:           attributes{":m": text(merchantID), ":at": instant(at)},
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}}
	old, err := s.replace(ctx, shorten, successor)
	if err == nil || old == nil {
		return err
	}
	k, err := decodeAPIKey(old)
	if err != nil {
		return err
	}
	if k.MerchantID != merchantID {
		return apikey.ErrNotFound
	}
	owned := types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{
		TableName:                 &s.table,
		Key:                       apiKeyKey(hash),
		ConditionExpression:       aws.String("merchant_id = :m"),
		ExpressionAttributeValues: attributes{":m": text(merchantID)},
	}}
	_, err = s.replace(ctx, owned, successor)
	return err
}

// replace puts the successor if the condition on the old key holds. If only
// that condition failed, it returns ErrNotFound and the old key's item, nil if
// there is none.
func (s *APIKeys) replace(ctx context.Context, onOld types.TransactWriteItem, successor apikey.Key) (attributes, error) {
	item, err := encodeAPIKey(successor)
	if err != nil {
		return nil, err
	}
	_, err = s.db.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
		onOld,
		{Put: &types.Put{
			TableName:                           &s.table,
			Item:                                item,
			ConditionExpression:                 aws.String("attribute_not_exists(key_hash)"),
			ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		}},
	}})
	if canceled, ok := errors.AsType[*types.TransactionCanceledException](err); ok && len(canceled.CancellationReasons) == 2 {
		old, put := canceled.CancellationReasons[0], canceled.CancellationReasons[1]
		switch {
		case failedCondition(old):
			return old.Item, apikey.ErrNotFound
		case failedCondition(put):
			return nil, ownOrTaken(put.Item, successor)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("putting %s: %w", successor.ID, err)
	}
	return nil, nil
}

func failedCondition(r types.CancellationReason) bool {
	return aws.ToString(r.Code) == "ConditionalCheckFailed"
}

// ownOrTaken judges the item that was found under k's hash. It returns nil for k
// itself, stored by a call whose answer was lost, and ErrExists for another key.
func ownOrTaken(item attributes, k apikey.Key) error {
	if item == nil {
		return apikey.ErrExists
	}
	there, err := decodeAPIKey(item)
	if err != nil {
		return err
	}
	if bytes.Equal(there.Hash[:], k.Hash[:]) && there.MerchantID == k.MerchantID && there.CreatedAt.Equal(k.CreatedAt) {
		return nil
	}
	return apikey.ErrExists
}

// Revoke implements apikey.Store.
func (s *APIKeys) Revoke(ctx context.Context, merchantID string, hash apikey.Hash, at time.Time) (apikey.Key, error) {
	out, err := s.db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName:                 &s.table,
		Key:                       apiKeyKey(hash),
		UpdateExpression:          aws.String("SET revoked_at = if_not_exists(revoked_at, :at)"),
		ConditionExpression:       aws.String("merchant_id = :m"),
		ExpressionAttributeValues: attributes{":m": text(merchantID), ":at": instant(at)},
		ReturnValues:              types.ReturnValueAllNew,
	})
	if _, ok := errors.AsType[*types.ConditionalCheckFailedException](err); ok {
		return apikey.Key{}, apikey.ErrNotFound
	}
	if err != nil {
		return apikey.Key{}, fmt.Errorf("revoking an API key: %w", err)
	}
	return decodeAPIKey(out.Attributes)
}
