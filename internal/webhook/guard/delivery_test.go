package guard_test

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"net/http"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"remit/internal/memory"
	"remit/internal/webhook"
	"remit/internal/webhook/guard"
)

// registered accepts every URL, as a name that did not resolve then was.
type registered struct{}

func (registered) Check(context.Context, string) error { return nil }

// A queue keeps its jobs and forgets their delays.
type queue []string

func (q *queue) Enqueue(_ context.Context, job string, _ time.Duration) error {
	*q = append(*q, job)
	return nil
}

// TestDeliveries takes an event to receivers of every kind, over the network,
// and checks the log that the merchant then reads.
func TestDeliveries(t *testing.T) {
	inside := func(netip.Addr) bool { return false }
	kill := func(w http.ResponseWriter, _ *http.Request) {
		conn, _, _ := http.NewResponseController(w).Hijack()
		_ = conn.Close()
	}
	redirect := func(w http.ResponseWriter, req *http.Request) { http.Redirect(w, req, "/elsewhere", http.StatusFound) }
	for _, test := range []struct {
		name     string
		handle   http.HandlerFunc
		allowed  func(netip.Addr) bool
		status   webhook.DeliveryStatus
		code     int
		problem  string
		endpoint webhook.Status
		hits     int32
	}{
		{"one that takes it", answer(200, ""), thisMachine, webhook.Delivered, 200, "", webhook.Enabled, 1},
		{"one that is killed", kill, thisMachine, webhook.Pending, 0, "the connection was closed without an answer", webhook.Enabled, 1},
		{"one that is slow", hang, thisMachine, webhook.Pending, 0, "there was no answer in time", webhook.Enabled, 1},
		{"one that redirects", redirect, thisMachine, webhook.Pending, 302, "the endpoint answered 302; redirects are not followed", webhook.Enabled, 1},
		{"one that is gone", answer(410, ""), thisMachine, webhook.Cancelled, 410, "the endpoint answered 410 and was disabled", webhook.Disabled, 1},
		{"one that is broken", answer(500, ""), thisMachine, webhook.Pending, 500, "the endpoint answered 500", webhook.Enabled, 1},
		{"one that is busy", answer(503, ""), thisMachine, webhook.Pending, 503, "the endpoint answered 503", webhook.Enabled, 1},
		{"one that moved to a private address", answer(200, ""), inside, webhook.Pending, 0, "the host name resolves to an address that is not public", webhook.Enabled, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := receive(t, test.handle)
			store, jobs := memory.NewWebhooks(), new(queue)
			o := webhook.Owner{Merchant: "mer_1", Mode: "live"}
			registry := webhook.NewRegistry(store, registered{}, time.Now, rand.Reader)
			e, err := registry.Register(t.Context(), o, webhook.Registration{URL: r.url("example.com")})
			must(t, err)
			ev := webhook.Event{Merchant: o.Merchant, Mode: o.Mode, ID: "evt_1", Type: webhook.PaymentConfirmed, Body: []byte("{}")}
			must(t, webhook.NewPublisher(store, jobs).Publish(t.Context(), ev))
			job := (*jobs)[0]
			timeout := patient
			if test.name == "one that is slow" {
				timeout = impatient
			}
			client := r.client(t, test.allowed, timeout)
			deliverer := webhook.NewDeliverer(store, jobs, client, webhook.NoMeter{}, time.Now, func() float64 { return 0.5 })
			must(t, deliverer.Deliver(context.WithoutCancel(t.Context()), job))
			ref, err := webhook.ParseRef(job)
			must(t, err)
			now, d, err := store.Load(t.Context(), ref)
			must(t, err)
			a, ok := d.LastAttempt()
			if !ok || a.StatusCode != test.code || a.Error != test.problem || d.Status != test.status || now.Status != test.endpoint {
				t.Errorf("%s after %+v, endpoint %s", d.Status, a, now.Status)
			}
			if again := len(*jobs) == 2; again != (test.status == webhook.Pending) || e.ID != ref.Endpoint {
				t.Errorf("jobs %v", *jobs)
			}
			if r.hits.Load() != test.hits {
				t.Errorf("%d hits", r.hits.Load())
			}
		})
	}
}

// TestAnEndpointThatHangsDelaysNoOther: one client serves all.
func TestAnEndpointThatHangsDelaysNoOther(t *testing.T) {
	var hung atomic.Int32
	slow := receive(t, func(w http.ResponseWriter, req *http.Request) {
		hung.Add(1)
		hang(w, req)
	})
	quick := receive(t, answer(200, ""))
	client := guard.NewTestClient(false, names(t, map[string][]string{"example.com": {"127.0.0.1"}}), thisMachine,
		&tls.Config{InsecureSkipVerify: true}, patient)
	ctx, cancel := context.WithCancel(t.Context())
	for range 200 {
		go func() { _, _ = client.Post(ctx, slow.url("example.com"), http.Header{}, nil) }()
	}
	for hung.Load() < 200 {
		time.Sleep(time.Millisecond)
	}
	for range 50 {
		begun := time.Now()
		if a, err := client.Post(t.Context(), quick.url("example.com"), http.Header{}, nil); err != nil || a.StatusCode != 200 {
			t.Fatalf("%d, %v", a.StatusCode, err)
		}
		if took := time.Since(begun); took > patient/2 {
			t.Errorf("a post took %v", took)
		}
	}
	cancel()
}
