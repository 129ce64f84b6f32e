package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// A Tester sends test events.
type Tester struct {
	store  EndpointStore
	sender Sender
	now    func() time.Time
	random io.Reader
}

// NewTester returns a tester of the endpoints in store. random makes ids.
func NewTester(store EndpointStore, sender Sender, now func() time.Time, random io.Reader) *Tester {
	return &Tester{store, sender, now, random}
}

// Test posts a webhook.test to an endpoint once and returns the attempt, which
// may have failed. Nothing is stored, and the endpoint's health stays as it is.
// The errors are ErrNotFound and ErrDisabled.
func (t *Tester) Test(ctx context.Context, o Owner, endpoint string) (Attempt, error) {
	e, err := live(ctx, t.store, o, endpoint)
	if err != nil {
		return Attempt{}, err
	}
	if e.Status != Enabled {
		return Attempt{}, fmt.Errorf("testing %s: %w", e.ID, ErrDisabled)
	}
	ev, err := testEvent(e, instant(t.now), t.random)
	if err != nil {
		return Attempt{}, err
	}
	x, err := post(ctx, t.sender, e, ev, t.now)
	return x.Attempt, err
}

// testEvent returns an event whose data names the endpoint.
func testEvent(e Endpoint, now time.Time, random io.Reader) (Event, error) {
	id, err := newID("evt_", random)
	if err != nil {
		return Event{}, err
	}
	return enveloped(e.Owner, id, TestType, now, map[string]string{"webhook_id": e.ID})
}

// enveloped returns an event in the envelope of all events.
func enveloped(o Owner, id, kind string, at time.Time, data any) (Event, error) {
	body, err := json.Marshal(struct {
		ID        string `json:"id"`
		Type      string `json:"type"`
		Timestamp string `json:"timestamp"`
		Data      any    `json:"data"`
	}{id, kind, at.Format("2006-01-02T15:04:05.000Z"), data})
	return Event{o.Merchant, o.Mode, id, kind, at, body}, err
}
