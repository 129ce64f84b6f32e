package operator

import (
	"time"

	"remit/internal/webhook"
)

// A deliveryRow is a delivery as --json shows it. Names are those of the API.
type deliveryRow struct {
	ID            string       `json:"id"`
	Endpoint      string       `json:"endpoint_id"`
	EventID       string       `json:"event_id"`
	EventType     string       `json:"event_type"`
	Status        string       `json:"status"`
	CreatedAt     *string      `json:"created_at"`
	NextAttemptAt *string      `json:"next_attempt_at"`
	Attempts      []attemptLog `json:"attempts"`
}

type attemptLog struct {
	At       *string `json:"at"`
	Status   int     `json:"status_code"` // 0 when there was no answer
	Duration int64   `json:"duration_ms"`
	Error    string  `json:"error"`
}

func rowOfDelivery(d webhook.Delivery) deliveryRow {
	row := deliveryRow{
		ID: d.Delivery, Endpoint: d.Endpoint, EventID: d.Event.ID, EventType: d.Event.Type, Status: string(d.Status),
		CreatedAt: stamp(d.CreatedAt), NextAttemptAt: stamp(d.NextAttemptAt), Attempts: []attemptLog{},
	}
	for _, a := range d.Attempts {
		row.Attempts = append(row.Attempts, attemptLog{stamp(a.At), a.StatusCode, a.Duration.Milliseconds(), a.Error})
	}
	return row
}

func rowsOfDeliveries(all []webhook.Delivery) []deliveryRow {
	rows := []deliveryRow{}
	for _, d := range all {
		rows = append(rows, rowOfDelivery(d))
	}
	return rows
}

// stamp returns a time as --json shows it: null for none.
func stamp(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	text := t.UTC().Format(time.RFC3339)
	return &text
}

// orDash returns the text of a table cell: "-" for none.
func orDash(s *string) string {
	if s == nil {
		return "-"
	}
	return *s
}
