package dynamo

import (
	"cmp"
	"fmt"
	"time"

	"github.com/remit-payouts/remit/internal/merchants/webhook"
)

type deliveryItem struct {
	PK            string     `dynamodbav:"pk"`
	SK            string     `dynamodbav:"sk"`
	EventID       string     `dynamodbav:"event_id"`
	EventType     string     `dynamodbav:"event_type"`
	EventAt       string     `dynamodbav:"event_at,omitempty"` // absent when it is created_at, as at first
	Body          []byte     `dynamodbav:"body,omitempty"`     // deflated
	Status        string     `dynamodbav:"status"`
	Attempts      []postItem `dynamodbav:"attempts,omitempty"`
	AttemptCount  int        `dynamodbav:"attempt_count"` // compared by writes
	NextAttemptAt time.Time  `dynamodbav:"next_attempt_at,omitempty"`
	Shard         string     `dynamodbav:"shard,omitempty"` // set while it is parked; the due index has no others
	CreatedAt     string     `dynamodbav:"created_at,omitempty"`
	EndedAt       string     `dynamodbav:"ended_at,omitempty"`
	TTL           int64      `dynamodbav:"ttl,omitempty"` // in epoch seconds
}

var deliveryFixed = []string{"event_id", "event_type", "event_at", "body", "created_at", attrTTL}

type postItem struct {
	At         string `dynamodbav:"at"`
	StatusCode int    `dynamodbav:"status_code,omitempty"`
	DurationMS int64  `dynamodbav:"duration_ms"`
	Error      string `dynamodbav:"error,omitempty"`
	Response   string `dynamodbav:"response,omitempty"`
}

func encodeDelivery(d webhook.Delivery) attributes {
	it := deliveryItem{
		PK: logPK(d.Owner, d.Endpoint), SK: d.Delivery, EventID: d.Event.ID, EventType: d.Event.Type,
		Body: deflated(d.Event.Body), Status: string(d.Status), Attempts: postItems(d.Attempts),
		AttemptCount: len(d.Attempts), NextAttemptAt: d.NextAttemptAt,
		CreatedAt: moment(d.CreatedAt), EndedAt: moment(d.EndedAt), TTL: expiry(d.CreatedAt),
	}
	if !d.Event.At.Equal(d.CreatedAt) {
		it.EventAt = moment(d.Event.At)
	}
	if d.Parked { // by the last digit of its id, which is random
		it.Shard = fmt.Sprint(int(d.Delivery[len(d.Delivery)-1]) % deliveryShards)
	}
	return encode(it)
}

// deliveryShards is the number of partitions that parked deliveries are spread over in the due index. Each takes
// 1,000 writes a second; reading each once a minute costs half a read unit a minute.
const deliveryShards = 4

func postItems(attempts []webhook.Attempt) []postItem {
	items := make([]postItem, len(attempts))
	for i, a := range attempts {
		items[i] = postItem{moment(a.At), a.StatusCode, a.Duration.Milliseconds(), a.Error, a.Response}
	}
	return items
}

func decodeDelivery(item attributes) (webhook.Delivery, error) {
	var it deliveryItem
	r := read(item, &it)
	ref, err := parseDeliveryKey(it.PK, it.SK)
	r.note("pk", err)
	body, err := inflated(it.Body)
	r.note("body", err)
	d := webhook.Delivery{
		Ref: ref,
		Event: webhook.Event{
			Merchant: ref.Merchant, Mode: ref.Mode, ID: it.EventID, Type: it.EventType,
			At: r.instant("event_at", cmp.Or(it.EventAt, it.CreatedAt)), Body: body,
		},
		Status: webhook.DeliveryStatus(it.Status), NextAttemptAt: it.NextAttemptAt,
		Parked: it.Shard != "", CreatedAt: r.instant("created_at", it.CreatedAt), EndedAt: r.instant("ended_at", it.EndedAt),
	}
	for _, a := range it.Attempts {
		d.Attempts = append(d.Attempts, webhook.Attempt{
			At: r.instant("at", a.At), StatusCode: a.StatusCode,
			Duration: time.Duration(a.DurationMS) * time.Millisecond, Error: a.Error, Response: a.Response,
		})
	}
	r.require("attempt_count", it.AttemptCount == len(it.Attempts))
	return decoded(r, d, it.SK)
}
