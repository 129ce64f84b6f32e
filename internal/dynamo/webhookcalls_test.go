package dynamo_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/middleware"
	"github.com/google/go-cmp/cmp"

	"remit/internal/dynamo"
	"remit/internal/dynamo/dynamotest"
	"remit/internal/webhook"
)

// A tally counts calls of DynamoDB by operation.
type tally struct {
	mu    sync.Mutex
	calls map[string]int
}

func (c *tally) middleware(stack *middleware.Stack) error {
	return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("tally",
		func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
			c.mu.Lock()
			c.calls[awsmiddleware.GetOperationName(ctx)]++
			c.mu.Unlock()
			return next.HandleInitialize(ctx, in)
		}), middleware.After)
}

// take returns the counts and resets them.
func (c *tally) take() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	calls := c.calls
	c.calls = map[string]int{}
	return calls
}

// sent is a webhook.Queue that remembers its jobs.
type sent struct{ jobs []string }

func (q *sent) Enqueue(_ context.Context, job string, _ time.Duration) error {
	q.jobs = append(q.jobs, job)
	return nil
}

// taking is a webhook.Sender and Checker whose endpoints answer every post with
// status.
type taking struct{ status int }

func (s taking) Post(context.Context, string, http.Header, []byte) (webhook.Answer, error) {
	return webhook.Answer{StatusCode: s.status}, nil
}

func (taking) Check(context.Context, string) error { return nil }

// TestCallsPerDelivery counts a delivery's whole life on real tables: one read
// for the event, then one write, one read and one write for each delivery, and
// one job. From two endpoints up the writes of an event are one call.
func TestCallsPerDelivery(t *testing.T) {
	setup := dynamotest.Client(t)
	counted := &tally{calls: map[string]int{}}
	store := dynamo.NewWebhooks(dynamodb.New(dynamodb.Options{
		BaseEndpoint: aws.String(dynamotest.Start(t)), Region: "us-east-1",
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
		APIOptions:  []func(*middleware.Stack) error{counted.middleware},
	}), tables(t, setup).Webhooks)
	half := func() float64 { return 0.5 }

	for _, test := range []struct {
		endpoints int
		want      map[string]int
	}{
		{0, map[string]int{"Query": 1}},
		{1, map[string]int{"Query": 1, "PutItem": 1, "BatchGetItem": 1, "UpdateItem": 1}},
		{2, map[string]int{"Query": 1, "TransactWriteItems": 1, "BatchGetItem": 2, "UpdateItem": 2}},
		{10, map[string]int{"Query": 1, "TransactWriteItems": 1, "BatchGetItem": 10, "UpdateItem": 10}},
	} {
		t.Run(fmt.Sprint(test.endpoints, " endpoints"), func(t *testing.T) {
			o := webhook.Owner{Merchant: "mer_" + rand.Text(), Mode: "test"}
			registry := webhook.NewRegistry(store, taking{}, time.Now, rand.Reader)
			for range test.endpoints {
				if _, err := registry.Register(t.Context(), o, webhook.Registration{URL: "https://example.com"}); err != nil {
					t.Fatal(err)
				}
			}
			counted.take()
			queue := &sent{}
			deliverer := webhook.NewDeliverer(store, queue, taking{200}, webhook.NoMeter{}, time.Now, half)
			event := webhook.Event{
				Merchant: o.Merchant, Mode: o.Mode, ID: "evt_1", Type: webhook.PaymentConfirmed,
				At: time.Date(2026, time.January, 2, 12, 0, 0, 0, time.UTC), Body: []byte("{}"),
			}
			if err := webhook.NewPublisher(store, queue).Publish(t.Context(), event); err != nil {
				t.Fatal(err)
			}
			if len(queue.jobs) != test.endpoints {
				t.Errorf("%d jobs", len(queue.jobs))
			}
			for _, job := range queue.jobs {
				if err := deliverer.Deliver(t.Context(), job); err != nil {
					t.Fatal(err)
				}
			}
			calls := counted.take()
			if diff := cmp.Diff(test.want, calls); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			total := 0
			for _, n := range calls {
				total += n
			}
			if test.endpoints > 1 && total > 3*test.endpoints {
				t.Errorf("%d calls for %d deliveries, more than 3 each", total, test.endpoints)
			}
		})
	}
	t.Run("an idle minute costs one query per shard", func(t *testing.T) {
		counted.take()
		n, err := webhook.NewPusher(store, &sent{}, webhook.NoMeter{}).PushDue(t.Context(), time.Now(), 10)
		if err != nil || n != 0 {
			t.Errorf("%d pushed, %v", n, err)
		}
		if diff := cmp.Diff(map[string]int{"Query": 4}, counted.take()); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	})
}
