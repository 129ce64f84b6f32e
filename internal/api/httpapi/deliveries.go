package httpapi

import (
	"context"
	"net/http"

	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/payment"
)

type deliveryBody struct {
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

func deliveryBodyOf(d webhook.Delivery) deliveryBody {
	body := deliveryBody{d.Delivery, d.Event.ID, d.Event.Type, d.Status, timeOrNull(d.NextAttemptAt), payment.Time(d.CreatedAt),
		[]attemptBody{}}
	for _, a := range d.Attempts {
		body.Attempts = append(body.Attempts, attemptBodyOf(a))
	}
	return body
}

func attemptBodyOf(a webhook.Attempt) attemptBody {
	body := attemptBody{At: payment.Time(a.At), DurationMS: a.Duration.Milliseconds(), Error: textOrNull(a.Error)}
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
	Deliveries(ctx context.Context, o webhook.Owner, endpoint string) ([]webhook.Delivery, error)
	Resend(ctx context.Context, o webhook.Owner, endpoint, delivery string) (webhook.Delivery, error)
}

// ListDeliveries serves GET /webhooks/{id}/deliveries.
func ListDeliveries(log Deliveries) Endpoint {
	return endpoint("ListDeliveries", func(c *call) (answer, error) {
		return listing(deliveryBodyOf)(log.Deliveries(c.Context(), ownerOf(c.caller), c.params["id"]))
	})
}

// ResendDelivery serves POST /webhooks/{id}/deliveries/{delivery_id}/resend.
func ResendDelivery(log Deliveries) Endpoint {
	return action("ResendDelivery", func(c *call, _ *form) (answer, error) {
		return reply(http.StatusOK, deliveryBodyOf)(log.Resend(c.Context(), ownerOf(c.caller), c.params["id"], c.params["delivery_id"]))
	})
}
