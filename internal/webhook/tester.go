package webhook

import (
	"context"
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

// Test posts a webhook.test to an endpoint once and returns what came of it; a
// refusal is an Attempt, not an error. Nothing is stored and the endpoint's
// health is left alone. The errors are ErrNotFound and ErrDisabled.
func (t *Tester) Test(ctx context.Context, o Owner, endpoint string) (Attempt, error) {
	panic("TODO")
}
