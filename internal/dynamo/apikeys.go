package dynamo

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"remit/internal/apikey"
)

// APIKeys keeps API keys in the table ApiKeys.
type APIKeys struct {
	db    *dynamodb.Client
	table string
}

var (
	_ apikey.Store  = (*APIKeys)(nil)
	_ apikey.Finder = (*APIKeys)(nil)
)

// NewAPIKeys returns the keys kept in table.
func NewAPIKeys(db *dynamodb.Client, table string) *APIKeys { return &APIKeys{db, table} }

// Create implements apikey.Store. When the SDK repeats it after a lost answer it
// meets its own item, which ownOrTaken tells from another merchant's.
func (s *APIKeys) Create(ctx context.Context, k apikey.Key) error {
	item, err := encodeAPIKey(k)
	if err != nil {
		return err
	}
	_, err = s.db.PutItem(ctx, &dynamodb.PutItemInput{
		TableName:                           &s.table,
		Item:                                item,
		ConditionExpression:                 aws.String("attribute_not_exists(key_hash)"),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	})
	if taken, ok := errors.AsType[*types.ConditionalCheckFailedException](err); ok {
		return ownOrTaken(taken.Item, k)
	}
	if err != nil {
		return fmt.Errorf("putting %s: %w", k.ID, err)
	}
	return nil
}

// Find implements apikey.Finder with a strongly consistent read: an
// authorizer's refusal is cached, so a new key must never be missed.
func (s *APIKeys) Find(ctx context.Context, hash apikey.Hash) (apikey.Key, error) {
	out, err := s.db.GetItem(ctx, &dynamodb.GetItemInput{
		TableName:      &s.table,
		Key:            apiKeyKey(hash),
		ConsistentRead: aws.Bool(true),
	})
	if err != nil {
		return apikey.Key{}, fmt.Errorf("reading an API key: %w", err)
	}
	if out.Item == nil {
		return apikey.Key{}, apikey.ErrNotFound
	}
	return decodeAPIKey(out.Item)
}

// Touch implements apikey.Finder.
func (s *APIKeys) Touch(ctx context.Context, hash apikey.Hash, at, since time.Time) error {
	_, err := s.db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName:        &s.table,
		Key:              apiKeyKey(hash),
		UpdateExpression: aws.String("SET last_used_at = :at"),
		ConditionExpression: aws.String("attribute_exists(key_hash) AND " +
			"(attribute_not_exists(last_used_at) OR last_used_at <= :since)"),
		ExpressionAttributeValues:           attributes{":at": instant(at), ":since": instant(since)},
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	})
	if stale, ok := errors.AsType[*types.ConditionalCheckFailedException](err); ok {
		if stale.Item == nil {
			return apikey.ErrNotFound
		}
		return nil // another request has just recorded its use
	}
	if err != nil {
		return fmt.Errorf("touching an API key: %w", err)
	}
	return nil
}

// List implements apikey.Store from the merchant index.
func (s *APIKeys) List(ctx context.Context, merchantID string) ([]apikey.Key, error) {
	keys := []apikey.Key{}
	for item, err := range query(ctx, s.db, &dynamodb.QueryInput{
		TableName:                 &s.table,
		IndexName:                 aws.String(indexMerchant),
		KeyConditionExpression:    aws.String("merchant_id = :m"),
		ExpressionAttributeValues: attributes{":m": text(merchantID)},
		ScanIndexForward:          aws.Bool(false),
	}) {
		if err != nil {
			return nil, fmt.Errorf("querying the API keys of %s: %w", merchantID, err)
		}
		k, err := decodeAPIKey(item)
		if err != nil {
			return nil, err
		}
		keys = append(keys, k)
	}
	slices.SortStableFunc(keys, func(a, b apikey.Key) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.ID, a.ID))
	})
	return keys, nil
}

// apiKeyItem is the item of an API key. Fields may be added, but none changes its
// meaning: old items stay readable.
type apiKeyItem struct {
	KeyHash      string `dynamodbav:"key_hash"` // lower-case hex
	KeyID        string `dynamodbav:"key_id"`
	MerchantID   string `dynamodbav:"merchant_id"`
	MerchantName string `dynamodbav:"merchant_name"`
	Mode         string `dynamodbav:"mode"`
	Prefix       string `dynamodbav:"prefix"`
	Last4        string `dynamodbav:"last4"`
	CreatedAt    string `dynamodbav:"created_at"`
	ExpiresAt    string `dynamodbav:"expires_at,omitempty"`
	RevokedAt    string `dynamodbav:"revoked_at,omitempty"`
	LastUsedAt   string `dynamodbav:"last_used_at,omitempty"`
}

func encodeAPIKey(k apikey.Key) (attributes, error) {
	item, err := attributevalue.MarshalMap(apiKeyItem{
		KeyHash: hex.EncodeToString(k.Hash[:]), KeyID: k.ID, MerchantID: k.MerchantID, MerchantName: k.MerchantName,
		Mode: string(k.Mode), Prefix: k.Prefix, Last4: k.Last4, CreatedAt: instantText(k.CreatedAt),
		ExpiresAt: instantText(k.ExpiresAt), RevokedAt: instantText(k.RevokedAt), LastUsedAt: instantText(k.LastUsedAt),
	})
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", k.ID, err)
	}
	return item, nil
}

func decodeAPIKey(item attributes) (apikey.Key, error) {
	var it apiKeyItem
	if err := attributevalue.UnmarshalMap(item, &it); err != nil {
		return apikey.Key{}, fmt.Errorf("decoding an API key: %w", err)
	}
	k := apikey.Key{
		ID: it.KeyID, MerchantID: it.MerchantID, MerchantName: it.MerchantName,
		Mode: apikey.Mode(it.Mode), Prefix: it.Prefix, Last4: it.Last4,
	}
	var errs []error
	if n, err := hex.Decode(k.Hash[:], []byte(it.KeyHash)); err != nil || n != len(k.Hash) {
		errs = append(errs, fmt.Errorf("hash of %s is not 32 bytes of hex", it.KeyID))
	}
	for _, t := range []struct {
		from string
		to   *time.Time
	}{{it.CreatedAt, &k.CreatedAt}, {it.ExpiresAt, &k.ExpiresAt}, {it.RevokedAt, &k.RevokedAt}, {it.LastUsedAt, &k.LastUsedAt}} {
		at, err := parseInstant(t.from)
		*t.to = at
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return apikey.Key{}, fmt.Errorf("decoding %s: %w", it.KeyID, err)
	}
	return k, nil
}
