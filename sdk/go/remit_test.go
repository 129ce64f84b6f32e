package remit_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	remit "github.com/remit-payouts/remit/sdk/go"
)

// A closing body says whether it was closed.
type closing struct {
	io.Reader
	closed *bool
}

func (c closing) Close() error { *c.closed = true; return nil }

type answers func(*http.Request) (*http.Response, error)

func (f answers) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestAttempt: one attempt is one request, whose redirect is not followed and whose body is closed. It leaves the outcome
// unknown, since the time is over.
func TestAttempt(t *testing.T) {
	n, closed := 0, false
	c := &remit.Client{URL: "http://remit.test", HTTP: &http.Client{Transport: answers(func(*http.Request) (*http.Response, error) {
		n++
		away := http.Header{"Location": {"http://other.test/"}}
		return &http.Response{StatusCode: 302, Header: away, Body: closing{strings.NewReader("x"), &closed}}, nil
	})}}
	if _, err := c.Attempt(t.Context(), "k", remit.Order{}); ended(nil, err).Error != "OutcomeUnknown" || n != 1 || !closed {
		t.Errorf("%d requests, closed %v: %v", n, closed, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := c.Pay(ctx, "i", remit.Order{Amount: "1"})
	if ended(nil, err).Error != "OutcomeUnknown" || !errors.Is(err, context.DeadlineExceeded) || n != 2 {
		t.Errorf("%d requests: %v", n, err)
	}
	c.HTTP.Transport = answers(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 422, Body: io.NopCloser(strings.NewReader(`{"detail":[]}`))}, nil
	})
	if _, err := c.Attempt(t.Context(), "k", remit.Order{}); ended(nil, err).Error != "Refused" {
		t.Error(err)
	}
	if _, err := c.Call(t.Context(), " ", "/", ""); err == nil {
		t.Error("a method that is none was sent")
	}
}

// TestIntentsInUTF8: no other language's string can hold these.
func TestIntentsInUTF8(t *testing.T) {
	for _, intent := range []string{"\xff", "\xed\xa0\x80", "o\xc3"} {
		if key, err := remit.Key(intent); err == nil {
			t.Errorf("%q has the key %q", intent, key)
		}
	}
}
