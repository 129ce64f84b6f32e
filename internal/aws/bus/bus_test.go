package bus_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/remit-payouts/remit/internal/aws/bus"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/tabletest"
)

// TestPut: an event has reached the bus only if its own entry has an id; a bus that failed is left alone for a while.
func TestPut(t *testing.T) {
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	var requests []string
	var status int
	var answer string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		requests = append(requests, string(body))
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	defer server.Close()
	config := aws.Config{Region: "eu-west-1", BaseEndpoint: &server.URL, Credentials: aws.AnonymousCredentials{}}
	b := bus.Open(config, "arn:aws:events:eu-west-1:1:event-bus/payouts", func() time.Time { return now })
	ev := webhook.Event{ID: "evt_1", Type: webhook.PaymentConfirmed, At: now, Body: []byte(`{"id":"evt_1"}`)}
	for _, c := range tabletest.Read(t, nil) {
		fails := c.Want == "an error"
		requests, status, answer = nil, must.Get(strconv.Atoi(c.In[0]))(t), c.In[1]
		if err := b.Put(t.Context(), ev); (err != nil) != fails || len(requests) != 1 {
			t.Errorf("%s: %v, after %d requests", c.Name, err, len(requests))
		}
		for _, part := range []string{`"Source":"remit"`, `"DetailType":"payment.confirmed"`, `"Detail":"{\"id\":\"evt_1\"}"`, "event-bus/payouts"} {
			if !strings.Contains(requests[0], part) {
				t.Errorf("%s lacks %s", requests[0], part)
			}
		}
		if err := b.Put(t.Context(), ev); fails && (err == nil || len(requests) != 1) {
			t.Errorf("%s, and asked again at once: %v, %d requests", c.Name, err, len(requests))
		}
		now = now.Add(30 * time.Second)
	}
}
