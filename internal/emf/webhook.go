package emf

import (
	"time"

	"remit/internal/webhook"
)

var _ webhook.Meter = (*Meter)(nil)

// Attempted implements webhook.Meter.
func (m *Meter) Attempted(result string, took time.Duration) {
	if result == "none" {
		result = "None"
	}
	m.Add("WebhookAttempts"+result, Count, 1)
	m.Add("WebhookDuration", Milliseconds, float64(took.Milliseconds()))
}

// Ended implements webhook.Meter.
func (m *Meter) Ended(status webhook.DeliveryStatus, took time.Duration) {
	name, ok := map[webhook.DeliveryStatus]string{
		webhook.Delivered: "WebhooksDelivered", webhook.Exhausted: "WebhooksExhausted", webhook.Cancelled: "WebhooksCancelled",
	}[status]
	if !ok {
		return
	}
	m.Add(name, Count, 1)
	if status == webhook.Delivered {
		m.Add("SecondsToDelivered", Seconds, took.Seconds())
	}
}

// OldestDue implements webhook.Meter.
func (m *Meter) OldestDue(age time.Duration) {
	if age > 0 {
		m.Add("WebhookOldestDue", Seconds, age.Seconds())
	}
}
