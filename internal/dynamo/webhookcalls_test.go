package dynamo_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"remit/internal/dynamo"
	"remit/internal/webhook"
)

// sent is a webhook.Queue that remembers its jobs.
type sent struct{ jobs []string }

func (q *sent) Enqueue(_ context.Context, job string, _ time.Duration) error {
	q.jobs = append(q.jobs, job)
	return nil
}

// taking is a webhook.Sender and Checker whose endpoints take every post.
type taking struct{}

func (taking) Post(context.Context, string, http.Header, []byte) (webhook.Answer, error) {
	return webhook.Answer{StatusCode: 200}, nil
}

func (taking) Check(context.Context, string) error { return nil }

// TestCallsPerDelivery counts a delivery's whole life on real tables: one read
// for the event, then one write, one read and one write for each delivery, and
// one job. From two endpoints up the writes of an event are one call.
func TestCallsPerDelivery(t *testing.T) {
	w := &wire{}
	db := w.client(t)
	store := dynamo.NewWebhooks(db, tables(t, db).Webhooks)
	called := func(t *testing.T, want map[string]int) {
		t.Helper()
		calls := map[string]int{}
		for _, op := range w.sent() {
			calls[op]++
		}
		if diff := cmp.Diff(want, calls); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	}
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
			w.sent()
			queue := &sent{}
			deliverer := webhook.NewDeliverer(store, queue, taking{}, webhook.NoMeter{}, time.Now, func() float64 { return 0.5 })
			event := webhook.Event{Merchant: o.Merchant, Mode: o.Mode, ID: "evt_1", Type: webhook.PaymentConfirmed, At: noon, Body: []byte("{}")}
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
			called(t, test.want)
		})
	}
	t.Run("an idle minute costs one query per shard", func(t *testing.T) {
		n, err := webhook.NewPusher(store, &sent{}, webhook.NoMeter{}).PushDue(t.Context(), time.Now(), 10)
		if err != nil || n != 0 {
			t.Errorf("%d pushed, %v", n, err)
		}
		called(t, map[string]int{"Query": 4})
	})
}
