package webhook

import (
	"fmt"

	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
)

// A Delivery is a delivery as --json shows it. Names are those of the API.
type Delivery struct {
	ID            string                 `json:"id"`
	Endpoint      string                 `json:"endpoint_id"`
	EventID       string                 `json:"event_id"`
	EventType     string                 `json:"event_type"`
	Status        webhook.DeliveryStatus `json:"status"`
	CreatedAt     deployed.Stamp         `json:"created_at"`
	NextAttemptAt deployed.Stamp         `json:"next_attempt_at"`
	Attempts      []try                  `json:"attempts"`
}

type try struct {
	At       deployed.Stamp `json:"at"`
	Status   int            `json:"status_code"` // 0 when there was no answer
	Duration int64          `json:"duration_ms"`
	Error    string         `json:"error"`
}

// Deliveries returns deliveries as --json shows them, and a line of text for each.
func Deliveries(all []webhook.Delivery) (rows []Delivery, text string) {
	rows = []Delivery{}
	for _, d := range all {
		attempts, at := []try{}, deployed.Stamp(d.CreatedAt)
		for _, a := range d.Attempts {
			attempts = append(attempts, try{deployed.Stamp(a.At), a.StatusCode, a.Duration.Milliseconds(), a.Error})
		}
		rows = append(rows, Delivery{d.Delivery, d.Endpoint, d.Event.ID, d.Event.Type, d.Status, at,
			deployed.Stamp(d.NextAttemptAt), attempts})
		last, _ := d.LastAttempt()
		text += fmt.Sprintf("%s  %s  %s  %s  %d attempts  %s\n", at, d.Event.ID, d.Event.Type, d.Status, len(attempts), last.Error)
	}
	return rows, text
}
