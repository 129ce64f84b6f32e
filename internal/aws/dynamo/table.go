package dynamo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Client returns the client of an account's tables.
func Client(config aws.Config) *dynamodb.Client { return dynamodb.NewFromConfig(config) }

type table struct {
	db   *dynamodb.Client
	name string
}

// get reads one item, strongly consistent, and decodes it, or returns missing. name names the item in errors.
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

// batchTries is the number of times that a batch is read before the items that DynamoDB left out are an error.
const batchTries = 4

var errThrottled = errors.New("throttled")

// batch reads the items of at most 100 keys, strongly consistent and in no order. It leaves out keys without an item.
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

type pager[P any] interface {
	HasMorePages() bool
	NextPage(ctx context.Context, options ...func(*dynamodb.Options)) (P, error)
}

// paged yields the items of all pages, each read when its turn comes. It ends after an error, which names the query.
func paged[P any](ctx context.Context, reading string, pages pager[P], items func(P) []attributes) iter.Seq2[attributes, error] {
	return func(yield func(attributes, error) bool) {
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				yield(nil, fmt.Errorf("%s: %w", reading, err))
				return
			}
			for _, item := range items(page) {
				if !yield(item, nil) {
					return
				}
			}
		}
	}
}

func (t table) query(ctx context.Context, reading string, in *dynamodb.QueryInput) iter.Seq2[attributes, error] {
	in.TableName = &t.name
	return paged(ctx, reading, dynamodb.NewQueryPaginator(t.db, in), func(p *dynamodb.QueryOutput) []attributes { return p.Items })
}

// scan yields the items of the whole table that a filter keeps, strongly consistent.
func (t table) scan(ctx context.Context, filter string, values attributes) iter.Seq2[attributes, error] {
	pages := dynamodb.NewScanPaginator(t.db, &dynamodb.ScanInput{
		TableName: &t.name, FilterExpression: &filter, ExpressionAttributeValues: values, ConsistentRead: aws.Bool(true),
	})
	return paged(ctx, "reading table "+t.name, pages, func(p *dynamodb.ScanOutput) []attributes { return p.Items })
}

// partition yields the items of a partition in the order of their sort keys, strongly
// consistent: those from one key to another, both included, or all if from is empty.
func (t table) partition(ctx context.Context, reading, pk, from, to string) iter.Seq2[attributes, error] {
	in := &dynamodb.QueryInput{KeyConditionExpression: aws.String("pk = :pk"), ConsistentRead: aws.Bool(true),
		ExpressionAttributeValues: attributes{":pk": text(pk)}}
	if from != "" {
		*in.KeyConditionExpression += " AND sk BETWEEN :from AND :to"
		in.ExpressionAttributeValues[":from"], in.ExpressionAttributeValues[":to"] = text(from), text(to)
	}
	return t.query(ctx, reading, in)
}

func all[T any](items iter.Seq2[attributes, error], decode func(attributes) (T, error)) ([]T, error) {
	list := []T{}
	for item, err := range items {
		if err != nil {
			return nil, err
		}
		v, err := decode(item)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

// A change is a write of one item: the attributes that must still be stored, and those to store. A "#name" in an
// expression is the attribute of that name, or of the name that names has for it.
type change struct {
	key        primaryKey
	item       attributes // put over any other under its key; key, set and do are empty then
	gone       bool       // the item is deleted; set and do are empty then
	still, set args       // nil stands for no such attribute
	when, do   string     // a condition and an effect besides
	names      map[string]string
	values     args              // of when and do
	fits       error             // why the value is beyond a bound of its store, so that nothing is written
	returns    types.ReturnValue // the zero value: none
}

// create puts an item that fits if none is stored under its key.
func create(item attributes, fits error) change {
	if item[attrKeyHash] != nil {
		return change{item: item, fits: fits, still: args{attrKeyHash: nil}}
	}
	return change{item: item, fits: fits, still: args{attrPK: nil}}
}

// pick returns the named attributes of an item, nil for those that it has not.
func pick(item attributes, names ...string) args {
	picked := args{}
	for _, name := range names {
		picked[name] = item[name]
	}
	return picked
}

// A rendering has a change's expressions. DynamoDB refuses empty ones, which are nil.
type rendering struct {
	do, when *string
	names    map[string]string
	values   attributes
	failed   types.ReturnValuesOnConditionCheckFailure
}

func (c change) render() (r rendering) {
	for name, value := range c.values {
		r.value(name, value)
	}
	still, absent := r.equal(c.still, "still")
	for _, name := range absent {
		still = append(still, "attribute_not_exists("+name+")")
	}
	switch {
	case still != nil && strings.Contains(c.when, " OR "):
		still = append(still, "("+c.when+")")
	case c.when != "":
		still = append(still, c.when)
	}
	if when := strings.Join(still, " AND "); when != "" {
		r.when, r.failed = &when, types.ReturnValuesOnConditionCheckFailureAllOld
	}
	do := c.do
	set, gone := r.equal(c.set, "set")
	if more, sets := strings.CutPrefix(do, "SET "); sets && set != nil {
		do = "SET " + strings.Join(append(set, more), ", ")
	} else if set != nil {
		do = "SET " + strings.Join(set, ", ") + " " + do
	}
	if gone != nil {
		do += " REMOVE " + strings.Join(gone, ", ")
	}
	if do != "" {
		r.do = &do
	}
	for _, word := range strings.FieldsFunc(do+" "+aws.ToString(r.when), func(r rune) bool { return strings.ContainsRune(" ,.()[]", r) }) {
		if name, found := strings.CutPrefix(word, "#"); found {
			if r.names == nil {
				r.names = map[string]string{}
			}
			r.names[word] = cmp.Or(c.names[word], name)
		}
	}
	return r
}

// equal adds the values of attributes. It returns "#name = :as_name" for each, and the names of those that are nil.
func (r *rendering) equal(all args, as string) (equal, none []string) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if all[name] == nil {
			none = append(none, "#"+name)
			continue
		}
		value := ":" + as + "_" + name
		equal = append(equal, "#"+name+" = "+value)
		r.value(value, all[name])
	}
	return equal, none
}

func (r *rendering) value(name string, v any) {
	if r.values == nil {
		r.values = attributes{}
	}
	r.values[name] = encodeValue(v)
}

// apply makes a change, with conflicts unless there are other options. An update makes the item if there is none, and
// returns the attributes that c asks for.
func (t table) apply(ctx context.Context, c change, options ...func(*dynamodb.Options)) (attributes, error) {
	if c.fits != nil {
		return nil, c.fits
	}
	r := c.render()
	if options == nil {
		options = []func(*dynamodb.Options){conflicts}
	}
	switch {
	case c.item != nil:
		_, err := t.db.PutItem(ctx, &dynamodb.PutItemInput{TableName: &t.name, Item: c.item, ConditionExpression: r.when,
			ExpressionAttributeNames: r.names, ExpressionAttributeValues: r.values, ReturnValuesOnConditionCheckFailure: r.failed}, options...)
		return nil, err
	case c.gone:
		_, err := t.db.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: &t.name, Key: c.key, ConditionExpression: r.when,
			ExpressionAttributeNames: r.names, ExpressionAttributeValues: r.values}, options...)
		return nil, err
	}
	out, err := t.db.UpdateItem(ctx, &dynamodb.UpdateItemInput{TableName: &t.name, Key: c.key, UpdateExpression: r.do,
		ConditionExpression: r.when, ExpressionAttributeNames: r.names, ExpressionAttributeValues: r.values,
		ReturnValues: c.returns, ReturnValuesOnConditionCheckFailure: r.failed}, options...)
	if err != nil {
		return nil, err
	}
	return out.Attributes, nil
}

// make makes a change, or returns the refusal of the stored item if its condition fails.
func (t table) make(ctx context.Context, c change, why refusal, doing string, options ...func(*dynamodb.Options)) error {
	_, err := t.apply(ctx, c, options...)
	return outcome(err, why, doing)
}

// A refusal is the error that a failed condition stands for, by the stored item, which is nil if there is none. A nil
// refusal stands for a change that was made before.
type refusal func(stored attributes) error

func is(err error) refusal { return unless(err, err) }

// unless is a refusal that stands for missing if no item is stored, else for changed.
func unless(missing, changed error) refusal {
	return func(stored attributes) error {
		if stored == nil {
			return missing
		}
		return changed
	}
}

// refused reports whether err is the failed condition of a write of one item.
// It returns the stored item if the write asked for it, nil if there is none.
func refused(err error) (item attributes, ok bool) {
	failed, ok := errors.AsType[*types.ConditionalCheckFailedException](err)
	if !ok {
		return nil, false
	}
	return failed.Item, true
}

// outcome returns the error of a write of one item.
func outcome(err error, why refusal, doing string) error {
	if stored, ok := refused(err); ok {
		if why == nil {
			return nil
		}
		return why(stored)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

// A write is a change in a transaction, or only its condition if it has no effect.
type write struct {
	change
	refusal
}

func (t table) item(c change) (item types.TransactWriteItem) {
	r := c.render()
	switch {
	case c.item != nil:
		item.Put = &types.Put{TableName: &t.name, Item: c.item, ConditionExpression: r.when, ExpressionAttributeNames: r.names,
			ExpressionAttributeValues: r.values, ReturnValuesOnConditionCheckFailure: r.failed}
	case c.gone:
		item.Delete = &types.Delete{TableName: &t.name, Key: c.key, ConditionExpression: r.when, ExpressionAttributeNames: r.names,
			ExpressionAttributeValues: r.values, ReturnValuesOnConditionCheckFailure: r.failed}
	case r.do == nil:
		item.ConditionCheck = &types.ConditionCheck{TableName: &t.name, Key: c.key, ConditionExpression: r.when,
			ExpressionAttributeNames: r.names, ExpressionAttributeValues: r.values}
	default:
		item.Update = &types.Update{TableName: &t.name, Key: c.key, UpdateExpression: r.do, ConditionExpression: r.when,
			ExpressionAttributeNames: r.names, ExpressionAttributeValues: r.values, ReturnValuesOnConditionCheckFailure: r.failed}
	}
	return item
}

// transact makes all writes or none. It returns the refusal of the first write
// whose condition failed. Any other error leaves the outcome unknown.
func (t table) transact(ctx context.Context, doing string, writes ...write) error {
	items := make([]types.TransactWriteItem, len(writes))
	for i, w := range writes {
		if w.fits != nil {
			return w.fits
		}
		items[i] = t.item(w.change)
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

// firstFailed returns the position of the first write of a cancelled transaction whose condition failed, with the
// item that is stored, -1 if that is not known. It is unknown after a write that DynamoDB did not judge because
// another transaction was at work on its item: that write's condition may have failed too.
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
