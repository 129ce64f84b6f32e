// Package capacity measures what a payment asks of DynamoDB over its whole
// life: the calls, the units they consume, and the items they leave.
package capacity

import (
	"context"
	"reflect"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/middleware"
)

// Units are calls and what they consumed.
type Units struct {
	Calls  float64
	Reads  float64 // read request units
	Writes float64 // write request units
}

func (u Units) add(o Units) Units {
	return Units{u.Calls + o.Calls, u.Reads + o.Reads, u.Writes + o.Writes}
}

// Per divides by a number of payments.
func (u Units) Per(n float64) Units { return Units{u.Calls / n, u.Reads / n, u.Writes / n} }

// A meter is a middleware of the AWS SDK that asks DynamoDB for what each call
// consumed, and adds it up by operation.
type meter struct {
	mu    sync.Mutex
	units map[string]Units
}

// middleware adds the meter to a client.
func (m *meter) middleware(stack *middleware.Stack) error {
	return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("Capacity",
		func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
			ask(in.Parameters)
			out, metadata, err := next.HandleInitialize(ctx, in)
			m.note(middleware.GetOperationName(ctx), in.Parameters, out.Result)
			return out, metadata, err
		}), middleware.Before)
}

// ask sets ReturnConsumedCapacity where an input has it.
func ask(input any) {
	if f := field(input, "ReturnConsumedCapacity"); f.IsValid() && f.CanSet() {
		f.SetString(string(types.ReturnConsumedCapacityTotal))
	}
}

// field finds a field of the struct that v points to.
func field(v any, name string) reflect.Value {
	at := reflect.Indirect(reflect.ValueOf(v))
	if at.Kind() != reflect.Struct {
		return reflect.Value{}
	}
	return at.FieldByName(name)
}

// note adds what a call consumed. DynamoDB tells read and write units in one
// number, so the operation decides which they are.
func (m *meter) note(operation string, input, output any) {
	f := field(output, "ConsumedCapacity")
	if !f.IsValid() {
		return
	}
	used := Units{Calls: 1}
	total := sum(f.Interface())
	switch operation {
	case "GetItem", "Query", "BatchGetItem", "TransactGetItems", "Scan":
		used.Reads = total
	default:
		used.Writes = total
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.units == nil {
		m.units = map[string]Units{}
	}
	m.units[operation] = m.units[operation].add(used)
}

func sum(nonceUsed any) float64 {
	switch c := nonceUsed.(type) {
	case *types.ConsumedCapacity:
		if c == nil {
			return 0
		}
		return aws.ToFloat64(c.CapacityUnits)
	case []types.ConsumedCapacity:
		total := 0.0
		for _, one := range c {
			total += aws.ToFloat64(one.CapacityUnits)
		}
		return total
	}
	return 0
}

// take returns what was consumed and begins anew.
func (m *meter) take() map[string]Units {
	m.mu.Lock()
	defer m.mu.Unlock()
	units := m.units
	m.units = nil
	return units
}

// total adds all operations up.
func total(units map[string]Units) Units {
	var all Units
	for _, u := range units {
		all = all.add(u)
	}
	return all
}
