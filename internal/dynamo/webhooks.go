package dynamo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"remit/internal/webhook"
)

// Webhooks is the webhook.Store kept in the table Webhooks. Only Due reads an
// index; every other read is strongly consistent.
type Webhooks struct {
	db    *dynamodb.Client
	table string
}

var _ webhook.Store = (*Webhooks)(nil)

// NewWebhooks returns the webhooks kept in table.
func NewWebhooks(db *dynamodb.Client, table string) *Webhooks { return &Webhooks{db, table} }

// AddEndpoint implements webhook.EndpointStore with one transaction. It puts the
// endpoint and adds one to its owner's count, which must be below limit.
func (s *Webhooks) AddEndpoint(ctx context.Context, e webhook.Endpoint, limit int) error {
	item, err := encodeEndpoint(e, endpointKey(e.Owner, e.ID))
	if err != nil {
		return err
	}
	reasons, err := s.transact(ctx,
		types.TransactWriteItem{Put: &types.Put{
			TableName: &s.table, Item: item, ConditionExpression: aws.String("attribute_not_exists(pk)"),
		}},
		types.TransactWriteItem{Update: &types.Update{
			TableName: &s.table, Key: countKey(e.Owner),
			UpdateExpression:    aws.String("ADD endpoints :one"),
			ConditionExpression: aws.String("attribute_not_exists(endpoints) OR endpoints < :limit"),
			ExpressionAttributeValues: attributes{
				":one": number(1), ":limit": number(uint64(max(limit, 0))),
			},
		}},
	)
	switch {
	case len(reasons) == 2 && failedCondition(reasons[0]):
		return nil // ids are random: this is the same endpoint, stored before
	case len(reasons) == 2 && failedCondition(reasons[1]):
		return webhook.ErrLimit
	case err != nil:
		return fmt.Errorf("putting %s: %w", e.ID, err)
	}
	return nil
}

// Endpoints implements webhook.EndpointStore with one query of one page.
func (s *Webhooks) Endpoints(ctx context.Context, o webhook.Owner) ([]webhook.Endpoint, error) {
	list := []webhook.Endpoint{}
	for item, err := range query(ctx, s.db, &dynamodb.QueryInput{
		TableName:              &s.table,
		KeyConditionExpression: aws.String("pk = :pk AND begins_with(sk, :prefix)"),
		ExpressionAttributeValues: attributes{
			":pk": text(o.Merchant), ":prefix": text(endpointPrefix + o.Mode + "#"),
		},
		ConsistentRead: aws.Bool(true),
	}) {
		if err != nil {
			return nil, fmt.Errorf("querying the webhooks of %s: %w", o.Merchant, err)
		}
		e, err := decodeEndpoint(item)
		if err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	slices.SortFunc(list, func(a, b webhook.Endpoint) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.ID, a.ID))
	})
	return list, nil
}

// Endpoint implements webhook.EndpointStore.
func (s *Webhooks) Endpoint(ctx context.Context, o webhook.Owner, id string) (webhook.Endpoint, error) {
	for _, k := range []primaryKey{endpointKey(o, id), goneKey(o, id)} {
		out, err := s.db.GetItem(ctx, &dynamodb.GetItemInput{TableName: &s.table, Key: k, ConsistentRead: aws.Bool(true)})
		if err != nil {
			return webhook.Endpoint{}, fmt.Errorf("reading a webhook: %w", err)
		}
		if out.Item != nil {
			return decodeEndpoint(out.Item)
		}
	}
	return webhook.Endpoint{}, webhook.ErrNotFound
}

// SaveEndpoint implements webhook.EndpointStore. When the SDK repeats the write
// after a lost answer, it finds its own result stored and returns that.
func (s *Webhooks) SaveEndpoint(ctx context.Context, e webhook.Endpoint) (webhook.Endpoint, error) {
	if e.Status == webhook.Deleted {
		return s.removeEndpoint(ctx, e)
	}
	next := e
	next.Version++
	update, err := updateEndpoint(next, e.Version)
	if err != nil {
		return webhook.Endpoint{}, err
	}
	update.TableName = &s.table
	_, err = s.db.UpdateItem(ctx, update, conflicts)
	if item, ok := refused(err); ok {
		if item == nil {
			return webhook.Endpoint{}, webhook.ErrNotFound
		}
		stored, err := decodeEndpoint(item)
		if err == nil && !reflect.DeepEqual(stored, next) {
			err = fmt.Errorf("version %d is stored: %w", stored.Version, webhook.ErrConflict)
		}
		return stored, err
	}
	if err != nil {
		return webhook.Endpoint{}, fmt.Errorf("updating %s: %w", e.ID, err)
	}
	return next, nil
}

// transact writes all items or none. If DynamoDB cancelled the transaction, it
// returns the reasons, one per item, with the error.
func (s *Webhooks) transact(ctx context.Context, items ...types.TransactWriteItem) ([]types.CancellationReason, error) {
	_, err := s.db.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: items}, conflicts)
	if canceled, ok := errors.AsType[*types.TransactionCanceledException](err); ok {
		return canceled.CancellationReasons, err
	}
	return nil, err
}

// removeEndpoint moves e to its goneKey and subtracts one from its owner's count.
func (s *Webhooks) removeEndpoint(ctx context.Context, e webhook.Endpoint) (webhook.Endpoint, error) {
	gone := e
	gone.Version++
	item, err := encodeEndpoint(gone, goneKey(e.Owner, e.ID))
	if err != nil {
		return webhook.Endpoint{}, err
	}
	reasons, err := s.transact(ctx,
		types.TransactWriteItem{Delete: &types.Delete{
			TableName: &s.table, Key: endpointKey(e.Owner, e.ID),
			ConditionExpression:                 aws.String("version = :read"),
			ExpressionAttributeValues:           attributes{":read": number(uint64(e.Version))},
			ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		}},
		types.TransactWriteItem{Put: &types.Put{TableName: &s.table, Item: item}},
		types.TransactWriteItem{Update: &types.Update{
			TableName: &s.table, Key: countKey(e.Owner),
			UpdateExpression:          aws.String("ADD endpoints :less"),
			ExpressionAttributeValues: attributes{":less": &types.AttributeValueMemberN{Value: "-1"}},
		}},
	)
	if len(reasons) == 3 && failedCondition(reasons[0]) {
		if reasons[0].Item == nil {
			return webhook.Endpoint{}, webhook.ErrNotFound
		}
		return webhook.Endpoint{}, webhook.ErrConflict
	}
	if err != nil {
		return webhook.Endpoint{}, fmt.Errorf("removing %s: %w", e.ID, err)
	}
	return gone, nil
}
