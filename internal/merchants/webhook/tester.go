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
	Store  Sealed
	Sender Sender
	Now    func() time.Time
	Random io.Reader
}

// Test posts a webhook.test to an endpoint once and returns the attempt, which may have failed. Nothing is stored,
// and the endpoint's health stays as it is. The errors are ErrNotFound and ErrDisabled.
func (t *Tester) Test(ctx context.Context, o Owner, endpoint string) (Attempt, error) {
	e, err := live(ctx, t.Store, o, endpoint)
	if err != nil {
		return Attempt{}, err
	}
	if e.Status != Enabled {
		return Attempt{}, fmt.Errorf("testing %s: %w", e.ID, ErrDisabled)
	}
	if e, err = t.Store.opened(ctx, e); err != nil {
		return Attempt{}, err
	}
	ev, err := enveloped(e.Owner, newID("evt_", t.Random), TestType, instant(t.Now), map[string]string{"webhook_id": e.ID})
	if err != nil {
		return Attempt{}, err
	}
	short, cancel := context.WithTimeout(ctx, testTimeout)
	defer cancel()
	x, err := post(short, t.Sender, e, ev, t.Now)
	if err != nil && short.Err() != nil && ctx.Err() == nil {
		x.Error, err = "the endpoint did not answer within 5 seconds", nil
	}
	return x.Attempt, err
}

// testTimeout is how long a test waits for its endpoint: its merchant waits too, and one of few functions.
const testTimeout = 5 * time.Second

func enveloped(o Owner, id, kind string, at time.Time, data any) (Event, error) {
	body, err := json.Marshal(struct {
		ID        string `json:"id"`
		Type      string `json:"type"`
		Timestamp string `json:"timestamp"`
		Data      any    `json:"data"`
	}{id, kind, at.UTC().Format("2006-01-02T15:04:05.000Z"), data})
	return Event{o.Merchant, o.Mode, id, kind, at, body}, err
}
