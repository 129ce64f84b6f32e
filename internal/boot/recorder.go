package boot

import (
	"context"
	"log/slog"
	"reflect"
	"slices"
	"sync"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go/middleware"
)

// A Call is one kind of call of an AWS service: what a policy has to allow.
type Call struct {
	Service   string // as the SDK names it: "DynamoDB", "Secrets Manager"
	Operation string // "TransactWriteItems"
	Resource  string // a table's or index's name, a queue's URL, a secret's id; "" if the call names none
}

// A Recorder counts the calls that clients of the AWS SDK make. The zero
// Recorder is ready; it is safe for concurrent use. A call whose transport
// retries is counted once.
//
// A function started with REMIT_RECORD_CALLS set logs each call instead, so
// that what a deployed function really uses can be held against its policy.
type Recorder struct {
	mu     sync.Mutex
	calls  map[Call]int
	logged bool
}

func (r *Recorder) log() *Recorder { r.logged = true; return r }

// Middleware adds the recorder to a client; it is for aws.Config.APIOptions.
func (r *Recorder) Middleware(stack *middleware.Stack) error {
	return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("remitRecorder",
		func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
			r.record(ctx, in.Parameters)
			return next.HandleInitialize(ctx, in)
		}), middleware.After)
}

func (r *Recorder) record(ctx context.Context, params any) {
	service, operation := awsmiddleware.GetServiceID(ctx), awsmiddleware.GetOperationName(ctx)
	resources := resourcesOf(params)
	if r.logged {
		slog.InfoContext(ctx, "aws call", "service", service, "operation", operation, "resources", resources)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.calls == nil {
		r.calls = map[Call]int{}
	}
	if len(resources) == 0 {
		resources = []string{""}
	}
	for _, resource := range resources {
		r.calls[Call{service, operation, resource}]++
	}
}

// Calls returns how often each kind of call was made. A call that names
// several resources counts once for each of them.
func (r *Recorder) Calls() map[Call]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	calls := make(map[Call]int, len(r.calls))
	for call, n := range r.calls {
		calls[call] = n
	}
	return calls
}

// resourcesOf finds the resources an operation's input names, by the field
// names all operations share, without linking the services.
func resourcesOf(params any) []string {
	in := reflect.Indirect(reflect.ValueOf(params))
	if in.Kind() != reflect.Struct {
		return nil
	}
	var found []string
	if table := textOf(in, "TableName"); table != "" {
		if index := textOf(in, "IndexName"); index != "" {
			table += "/index/" + index
		}
		found = append(found, table)
	}
	for _, name := range []string{"QueueUrl", "SecretId"} {
		if s := textOf(in, name); s != "" {
			found = append(found, s)
		}
	}
	if tables := in.FieldByName("RequestItems"); tables.IsValid() && tables.Kind() == reflect.Map {
		for _, table := range tables.MapKeys() {
			found = append(found, table.String())
		}
	}
	if items := in.FieldByName("TransactItems"); items.IsValid() && items.Kind() == reflect.Slice {
		for i := range items.Len() {
			for _, kind := range []string{"ConditionCheck", "Delete", "Get", "Put", "Update"} {
				if item := items.Index(i).FieldByName(kind); item.IsValid() && !item.IsNil() {
					found = append(found, textOf(item.Elem(), "TableName")+"#"+kind)
				}
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// textOf returns what the field of that name points to, "" if there is none.
func textOf(v reflect.Value, name string) string {
	f := v.FieldByName(name)
	if !f.IsValid() || f.Kind() != reflect.Pointer || f.IsNil() || f.Elem().Kind() != reflect.String {
		return ""
	}
	return f.Elem().String()
}
