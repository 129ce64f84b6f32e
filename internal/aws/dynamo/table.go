package dynamo

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// A table is a table of DynamoDB and the client that reaches it.
type table struct {
	db   *dynamodb.Client
	name string
}

// get reads one item, strongly consistent, and decodes it. It returns missing if
// there is none. name names the item in errors.
func get[T any](ctx context.Context, t table, k primaryKey, name string, missing error, decode func(attributes) (T, error)) (T, error) {
	var none T
	out, err := t.db.GetItem(ctx, &dynamodb.GetItemInput{TableName: &t.name, Key: k, ConsistentRead: aws.Bool(true)})
	if err != nil {
		return none, fmt.Errorf("reading %s: %w", name, err)
	}
	if out.Item == nil {
		return none, missing
	}
	return decode(out.Item)
}

// batchTries is the number of times that a batch is read before the items that
// DynamoDB left out are an error.
const batchTries = 4

// errThrottled reports that DynamoDB left out items of a batch at every try.
var errThrottled = errors.New("throttled")

// batch reads the items of at most 100 keys, strongly consistent and in no
// order. It leaves out keys without an item.
func (t table) batch(ctx context.Context, keys []primaryKey) ([]attributes, error) {
	if len(keys) == 0 {
		return nil, nil // DynamoDB refuses an empty batch
	}
	var found []attributes
	ask := map[string]types.KeysAndAttributes{t.name: {ConsistentRead: aws.Bool(true), Keys: keys}}
	for range batchTries {
		out, err := t.db.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{RequestItems: ask})
		if err != nil {
			return nil, err
		}
		found = append(found, out.Responses[t.name]...)
		if ask = out.UnprocessedKeys; len(ask) == 0 {
			return found, nil
		}
	}
	return nil, errThrottled
}

// query yields the items that a query finds. It reads a page when the items
// before it are used up, and ends after an error.
func (t table) query(ctx context.Context, in *dynamodb.QueryInput) iter.Seq2[attributes, error] {
	in.TableName = &t.name
	return func(yield func(attributes, error) bool) {
		for pages := dynamodb.NewQueryPaginator(t.db, in); pages.HasMorePages(); {
			page, err := pages.NextPage(ctx)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, item := range page.Items {
				if !yield(item, nil) {
					return
				}
			}
		}
	}
}

// update updates one item and returns the attributes that in asks for.
func (t table) update(ctx context.Context, in *dynamodb.UpdateItemInput, options ...func(*dynamodb.Options)) (attributes, error) {
	in.TableName = &t.name
	out, err := t.db.UpdateItem(ctx, in, append([]func(*dynamodb.Options){conflicts}, options...)...)
	if err != nil {
		return nil, err
	}
	return out.Attributes, nil
}

// allOld makes a write whose condition fails return the stored item.
const allOld = types.ReturnValuesOnConditionCheckFailureAllOld

// refused reports whether err is the failed condition of a write of one item.
// It returns the stored item if the write asked for it, nil if there is none.
func refused(err error) (item attributes, ok bool) {
	failed, ok := errors.AsType[*types.ConditionalCheckFailedException](err)
	if !ok {
		return nil, false
	}
	return failed.Item, true
}

// outcome returns the error of a write of one item: refusal if its condition
// failed. A nil refusal stands for a write that was made before.
func outcome(err, refusal error, doing string) error {
	if _, ok := refused(err); ok {
		return refusal
	}
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

// A write is one item of a transaction. A failed condition of it stands for the
// error that refusal returns for the stored item, which is nil if there is none
// or the write did not ask for it. A nil refusal stands for a write that was
// made before.
type write struct {
	types.TransactWriteItem
	refusal func(stored attributes) error
}

// is is the refusal of a write that always stands for err.
func is(err error) func(attributes) error { return func(attributes) error { return err } }

// put puts an item over any other under its key.
func (t table) put(item attributes) write {
	return write{types.TransactWriteItem{Put: &types.Put{TableName: &t.name, Item: item}}, nil}
}

// putAbsent puts an item if none is stored under its key.
func (t table) putAbsent(item attributes, refusal func(attributes) error) write {
	w := t.put(item)
	w.Put.ConditionExpression, w.refusal = aws.String("attribute_not_exists(pk)"), refusal
	return w
}

// transact makes all writes or none. It returns the refusal of the first write
// whose condition failed. Any other error leaves the outcome unknown.
func (t table) transact(ctx context.Context, doing string, writes ...write) error {
	items := make([]types.TransactWriteItem, len(writes))
	for i, w := range writes {
		items[i] = w.TransactWriteItem
	}
	_, err := t.db.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: items}, conflicts)
	if i, stored := firstFailed(err); i >= 0 {
		if writes[i].refusal == nil {
			return nil
		}
		return writes[i].refusal(stored)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

// firstFailed returns the position of the first write of a cancelled
// transaction whose condition failed, with the item that is stored, -1 if that
// is not known. It is unknown after a write that DynamoDB did not judge because
// another transaction was at work on its item: that write's condition may have
// failed too.
func firstFailed(err error) (position int, stored attributes) {
	canceled, ok := errors.AsType[*types.TransactionCanceledException](err)
	if !ok {
		return -1, nil
	}
	i := slices.IndexFunc(canceled.CancellationReasons, func(r types.CancellationReason) bool {
		return aws.ToString(r.Code) != "None"
	})
	if i >= 0 && aws.ToString(canceled.CancellationReasons[i].Code) == "ConditionalCheckFailed" {
		return i, canceled.CancellationReasons[i].Item
	}
	return -1, nil
}
