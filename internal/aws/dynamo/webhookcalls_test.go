package dynamo_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
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

// TestWebhooksExpire: deliveries end 90 days after their creation, however they came to be
// stored, and a deleted endpoint 90 days after its deletion; nothing else does.
func TestWebhooksExpire(t *testing.T) {
	w := &wire{t: t}
	db := w.client(t)
	table := tables(t, db).Webhooks
	store, o, clock := dynamo.NewWebhooks(db, table), webhook.Owner{Merchant: "mer_1", Mode: "test"}, noon
	now := func() time.Time { return clock }
	registry, queue := webhook.NewRegistry(store, taking{}, now, rand.Reader), &sent{}
	var ids [3]string // of endpoints: one stays, one is disabled, one is deleted
	for i := range ids {
		e, err := registry.Register(t.Context(), o, webhook.Registration{URL: "https://example.com"})
		if err != nil {
			t.Fatal(err)
		}
		ids[i] = e.ID
	}
	clock = clock.Add(time.Hour)
	event := webhook.Event{Merchant: o.Merchant, Mode: o.Mode, ID: "evt_1", Type: webhook.PaymentConfirmed, At: clock, Body: []byte("{}")}
	_, err := registry.Update(t.Context(), o, ids[1], webhook.Change{Status: new(webhook.Disabled)})
	err = errors.Join(err, webhook.NewPublisher(store, queue).Publish(t.Context(), event), registry.Delete(t.Context(), o, ids[2]))
	for _, job := range queue.jobs {
		err = errors.Join(err, webhook.NewDeliverer(store, queue, taking{}, webhook.NoMeter{}, time.Now,
			func() float64 { return 0.5 }).Deliver(t.Context(), job))
	}
	out, scanErr := db.Scan(t.Context(), &dynamodb.ScanInput{TableName: &table})
	if err := errors.Join(err, scanErr); err != nil {
		t.Fatal(err)
	}
	expire := map[string]int{}
	for _, item := range out.Items {
		ttl, _ := item["ttl"].(*types.AttributeValueMemberN)
		switch {
		case ttl == nil:
			expire["never"]++
		case ttl.Value == fmt.Sprint(clock.AddDate(0, 0, 90).Unix()):
			expire["after 90 days"]++
		default:
			t.Errorf("%v", item)
		}
	}
	// Two endpoints and their count; three deliveries, one each that was delivered, cancelled
	// at once and cancelled later, and the deleted endpoint.
	if diff := cmp.Diff(map[string]int{"never": 3, "after 90 days": 4}, expire); diff != "" {
		t.Errorf("items that expire (-want +got):\n%s", diff)
	}
}
