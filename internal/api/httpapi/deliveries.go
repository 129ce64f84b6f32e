package httpapi

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/payment"
)

// A Delivery is a delivery as its merchant sees it.
type Delivery struct {
	ID            string                 `json:"id"`
	EventID       string                 `json:"event_id"`
	EventType     string                 `json:"event_type"`
	Status        webhook.DeliveryStatus `json:"status"`
	NextAttemptAt *payment.Time          `json:"next_attempt_at"`
	CreatedAt     payment.Time           `json:"created_at"`
	Attempts      []attemptBody          `json:"attempts"`
}

type attemptBody struct {
	At           payment.Time `json:"at"`
	StatusCode   *int         `json:"status_code"`
	DurationMS   int64        `json:"duration_ms"`
	Error        *string      `json:"error"`
	ResponseBody *string      `json:"response_body"`
}

// DeliveryOf returns a delivery as its merchant sees it.
func DeliveryOf(d webhook.Delivery) Delivery {
	return Delivery{d.Delivery, d.Event.ID, d.Event.Type, d.Status, payment.OrNull(payment.Time(d.NextAttemptAt)),
		payment.Time(d.CreatedAt), each(attemptBodyOf)(d.Attempts)}
}

func attemptBodyOf(a webhook.Attempt) attemptBody {
	body := attemptBody{At: payment.Time(a.At), DurationMS: a.Duration.Milliseconds(), Error: payment.OrNull(a.Error)}
	if a.StatusCode != 0 {
		body.StatusCode, body.ResponseBody = &a.StatusCode, &a.Response
	}
	return body
}

// A WebhookTester posts test events; *webhook.Tester is one.
type WebhookTester interface {
	Test(ctx context.Context, o webhook.Owner, endpoint string) (webhook.Attempt, error)
}

// TestWebhook serves POST /webhooks/{id}/test.
func TestWebhook(tester WebhookTester) Endpoint {
	return action("TestWebhook", func(c *call, _ *form) (answer, error) {
		return reply(http.StatusOK, attemptBodyOf)(tester.Test(c.Context(), ownerOf(c.caller), c.params["id"]))
	})
}

// Deliveries lists the deliveries of an endpoint, and sends their events again; *webhook.Log does.
type Deliveries interface {
	Page(ctx context.Context, o webhook.Owner, endpoint string, status webhook.DeliveryStatus, from time.Time,
		after string, limit int) (page []webhook.Delivery, next string, err error)
	Resend(ctx context.Context, o webhook.Owner, endpoint, delivery string) (webhook.Delivery, error)
	ResendFailed(ctx context.Context, o webhook.Owner, endpoint string, since time.Time) (count int, more bool, err error)
}

// ListDeliveries serves GET /webhooks/{id}/deliveries.
func ListDeliveries(log Deliveries) Endpoint {
	return endpoint("ListDeliveries", func(c *call) (answer, error) {
		id, status := c.params["id"], c.query.word("status", string(webhook.Pending), string(webhook.Delivered),
			string(webhook.Exhausted), string(webhook.Cancelled))
		return ok(paged(c, "deliveries 1 "+id, filters{Status: status}, func(at cursor) ([]webhook.Delivery, position, error) {
			page, next, err := log.Page(c.Context(), ownerOf(c.caller), id, webhook.DeliveryStatus(at.Status),
				time.Time{}, at.ID, at.Limit)
			return page, position{ID: next}, err
		}, each(DeliveryOf), func(d webhook.Delivery) position { return position{ID: d.Delivery} }))
	})
}

// ResendDelivery serves POST /webhooks/{id}/deliveries/{delivery_id}/resend.
func ResendDelivery(log Deliveries) Endpoint {
	return action("ResendDelivery", func(c *call, _ *form) (answer, error) {
		return reply(http.StatusOK, DeliveryOf)(log.Resend(c.Context(), ownerOf(c.caller), c.params["id"], c.params["delivery_id"]))
	})
}

// ResendFailed serves POST /webhooks/{id}/resend-failed.
func ResendFailed(log Deliveries, now func() time.Time) Endpoint {
	return submission("ResendFailed", func(c *call, f *form) (answer, error) {
		f.required("since")
		since := f.instant("since")
		if ago := now().Sub(since); len(f.bad) == 0 && (ago < 0 || ago > webhook.KeptFor) {
			f.refuse("since", "datetime_range", "Must be at most 90 days ago, and not in the future")
		}
		if err := f.err(); err != nil {
			return answer{}, err
		}
		count, more, err := log.ResendFailed(c.Context(), ownerOf(c.caller), c.params["id"], since)
		if errors.Is(err, webhook.ErrTooMany) {
			err = invalids{{"datetime_range", []any{"body", "since"}, "Too many deliveries were made since then: name a later time"}}
		}
		return ok(struct {
			Count   int  `json:"count"`
			HasMore bool `json:"has_more"`
		}{count, more}, err)
	})
}
