package measure_test

import (
	"context"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/middleware"
	"github.com/google/go-cmp/cmp"
)

// usage is a number of calls of DynamoDB and the request units they consumed.
type usage struct{ calls, reads, writes float64 }

func (u usage) plus(o usage) usage {
	return usage{u.calls + o.calls, u.reads + o.reads, u.writes + o.writes}
}

func (u usage) times(f float64) usage { return usage{u.calls * f, u.reads * f, u.writes * f} }

// operations is the usage of each operation of DynamoDB.
type operations map[string]usage

func (o operations) all() (sum usage) {
	for _, u := range o {
		sum = sum.plus(u)
	}
	return sum
}

// A meter is a middleware of the AWS SDK that asks DynamoDB for the units each
// call consumed.
type meter struct {
	mu   sync.Mutex
	used operations
}

func (m *meter) middleware(stack *middleware.Stack) error {
	return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("Meter",
		func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
			if f := reflect.ValueOf(in.Parameters).Elem().FieldByName("ReturnConsumedCapacity"); f.IsValid() {
				f.SetString(string(types.ReturnConsumedCapacityTotal))
			}
			out, metadata, err := next.HandleInitialize(ctx, in)
			m.note(middleware.GetOperationName(ctx), out.Result)
			return out, metadata, err
		}), middleware.Before)
}

// note adds a call. DynamoDB tells read and write units in one number, so the
// operation decides which they are.
func (m *meter) note(operation string, output any) {
	out := reflect.Indirect(reflect.ValueOf(output))
	if out.Kind() != reflect.Struct || !out.FieldByName("ConsumedCapacity").IsValid() {
		return
	}
	var told []types.ConsumedCapacity
	switch c := out.FieldByName("ConsumedCapacity").Interface().(type) {
	case *types.ConsumedCapacity:
		if c != nil {
			told = append(told, *c)
		}
	case []types.ConsumedCapacity:
		told = c
	}
	u := usage{calls: 1}
	for _, c := range told {
		if strings.Contains(operation, "Get") || operation == "Query" || operation == "Scan" {
			u.reads += aws.ToFloat64(c.CapacityUnits)
		} else {
			u.writes += aws.ToFloat64(c.CapacityUnits)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.used == nil {
		m.used = operations{}
	}
	m.used[operation] = m.used[operation].plus(u)
}

// take returns the usage and begins anew.
func (m *meter) take() operations {
	m.mu.Lock()
	defer m.mu.Unlock()
	used := m.used
	m.used = nil
	return used
}

// sizeOf returns the bytes that DynamoDB charges an item for: names and values in
// UTF-8, a number about a byte for two digits and one more, three bytes for a
// list or map and one for each of its entries (DynamoDB developer guide,
// "DynamoDB item sizes and formats").
func sizeOf(item map[string]types.AttributeValue) (bytes int) {
	for name, v := range item {
		bytes += len(name) + valueSize(v)
	}
	return bytes
}

func valueSize(v types.AttributeValue) int {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return len(v.Value)
	case *types.AttributeValueMemberB:
		return len(v.Value)
	case *types.AttributeValueMemberN:
		digits := len(strings.Trim(strings.NewReplacer("-", "", ".", "").Replace(v.Value), "0"))
		return (digits+1)/2 + 1
	case *types.AttributeValueMemberL:
		bytes := 3
		for _, entry := range v.Value {
			bytes += 1 + valueSize(entry)
		}
		return bytes
	case *types.AttributeValueMemberM:
		return 3 + len(v.Value) + sizeOf(v.Value)
	case *types.AttributeValueMemberSS:
		return len(strings.Join(v.Value, ""))
	default: // a boolean or null
		return 1
	}
}

// transacted returns the write units of a transaction on items of these sizes:
// two for each kilobyte begun, of each (DynamoDB developer guide, "Capacity
// management for transactions"). DynamoDB Local tells up to twice that, and not
// in step with the sizes.
func transacted(bytes ...int) (units float64) {
	for _, b := range bytes {
		units += float64(2 * ((b + 1023) / 1024))
	}
	return units
}

func TestSizeOfFollowsTheDeveloperGuide(t *testing.T) {
	item := map[string]types.AttributeValue{
		"pk":    &types.AttributeValueMemberS{Value: "payment"},                                                                       // 2 + 7
		"raw":   &types.AttributeValueMemberB{Value: make([]byte, 180)},                                                               // 3 + 180
		"nonce": &types.AttributeValueMemberN{Value: "1234"},                                                                          // 5 + 3
		"zero":  &types.AttributeValueMemberN{Value: "0"},                                                                             // 4 + 1
		"on":    &types.AttributeValueMemberBOOL{Value: true},                                                                         // 2 + 1
		"list":  &types.AttributeValueMemberL{Value: []types.AttributeValue{&types.AttributeValueMemberS{Value: "ab"}}},               // 4 + 3 + 1 + 2
		"map":   &types.AttributeValueMemberM{Value: map[string]types.AttributeValue{"a": &types.AttributeValueMemberS{Value: "bc"}}}, // 3 + 3 + 1 + 1 + 2
	}
	if got, want := sizeOf(item), 9+183+8+5+3+10+10; got != want {
		t.Errorf("sizeOf = %d; want %d", got, want)
	}
	if got := transacted(1, 1024, 1025); got != 2+2+4 {
		t.Errorf("a transaction takes %v units; want 8", got)
	}
}

func TestMeterTellsReadsFromWrites(t *testing.T) {
	var m meter
	m.note("GetItem", &dynamodb.GetItemOutput{ConsumedCapacity: &types.ConsumedCapacity{CapacityUnits: aws.Float64(2)}})
	m.note("TransactWriteItems", &dynamodb.TransactWriteItemsOutput{ConsumedCapacity: []types.ConsumedCapacity{
		{CapacityUnits: aws.Float64(6)}, {CapacityUnits: aws.Float64(4)}}})
	m.note("PutItem", &dynamodb.PutItemOutput{})
	m.note("DescribeTable", &dynamodb.DescribeTableOutput{}) // consumes nothing that is told
	want := operations{"GetItem": {1, 2, 0}, "TransactWriteItems": {1, 0, 10}, "PutItem": {1, 0, 0}}
	if diff := cmp.Diff(want, m.take(), cmp.AllowUnexported(usage{})); diff != "" {
		t.Error(diff)
	}
	if m.take() != nil {
		t.Error("usage that was taken is still there")
	}
}
