package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/remit-payouts/remit/internal/api/httpapi/httpapitest"
	"github.com/remit-payouts/remit/internal/proof/must"
	sdk "github.com/remit-payouts/remit/sdk/go"
)

// A merchant uses the API over HTTP, with a key or without.
type merchant struct {
	t     *testing.T
	s     *stack
	key   string
	owner string // the merchant's id
}

// An answer is the whole of one, and its body if that is an object.
type answer struct {
	status int
	header http.Header
	text   string
	body   map[string]any
}

// call makes a request and holds the answer against openapi.yaml. A body that is no text is sent as JSON.
func (m merchant) call(method, path string, body any, headers ...string) answer {
	m.t.Helper()
	text, ok := body.(string)
	if body != nil && !ok {
		text = string(must.Get(json.Marshal(body))(m.t))
	}
	got := must.Get(m.api().Call(m.t.Context(), method, path, text, headers...))(m.t)
	if got.Header.Get("Date") == "" {
		m.t.Errorf("%s %s: no Date, by which clients give up", method, path)
	}
	described(m.t, method, path, &http.Response{StatusCode: got.Status, Header: got.Header, Body: io.NopCloser(bytes.NewReader(got.Body))})
	if got.Status >= 500 {
		m.t.Errorf("%s %s: %d", method, path, got.Status)
	}
	a := answer{status: got.Status, header: got.Header, text: string(got.Body)}
	_ = json.Unmarshal(got.Body, &a.body)
	return a
}

// api is the client that the merchant's requests go through.
func (m merchant) api() *sdk.Client { return &sdk.Client{URL: m.s.URL(""), Key: m.key, HTTP: m.s.HTTP} }

// contract is openapi.yaml, which every answer is held against.
var contract = sync.OnceValues(httpapitest.NewContract)

// gatewayHeaders are the headers that API Gateway adds to every answer; openapi.yaml describes
// Remit's own. X-Amz-Request-Id is ministack's alone.
var gatewayHeaders = []string{"X-Amzn-Requestid", "X-Amzn-Errortype", "X-Amz-Request-Id"}

// described fails the test unless openapi.yaml describes the answer. The stage's
// own address is no part of the paths that are described there.
func described(t *testing.T, method, path string, answer *http.Response) {
	t.Helper()
	c := must.Get(contract())(t)
	path, _, _ = strings.Cut(path, "?")
	answer.Header = answer.Header.Clone()
	for _, name := range gatewayHeaders {
		answer.Header.Del(name)
	}
	must.OK(t, c.Check(&http.Request{Method: method, URL: &url.URL{Path: path}, Header: http.Header{}}, answer))
}

// want fails the test unless the answer has the status.
func (a answer) want(t *testing.T, status int) answer {
	t.Helper()
	if a.status != status {
		t.Fatalf("got %d %s, want %d", a.status, a.text, status)
	}
	return a
}

func (a answer) get(name string) string { return fmt.Sprint(a.body[name]) }

// newMerchant creates a key as every visitor of a sandbox can, waiting its turn.
func newMerchant(t *testing.T, s *stack) merchant {
	t.Helper()
	m := merchant{t: t, s: s}
	made := m.served("POST", "/create-api-key", map[string]string{"merchant_name": t.Name()}).want(t, 201)
	m.key, m.owner = made.get("api_key"), made.get("merchant_id")
	return m
}

func (m merchant) paid(key string, amount int) (hash string) {
	m.t.Helper()
	order := map[string]any{"to": recipient, "amount": amount}
	hash = m.call("POST", "/send-payment", order, "Idempotency-Key", key).want(m.t, 201).get("tx_hash")
	until(m.t, "confirming "+key, func() bool {
		return m.call("GET", "/transaction/"+hash, nil).want(m.t, 200).get("status") == "confirmed"
	})
	return hash
}

// served calls until the answer is not that there were too many requests: another test may just have made them.
func (m merchant) served(method, path string, body any, headers ...string) answer {
	m.t.Helper()
	var a answer
	until(m.t, method+" "+path+" to be served", func() bool {
		a = m.call(method, path, body, headers...)
		return a.status != 429
	})
	return a
}

// A delivery is a webhook as the merchant's server got it.
type delivery struct {
	header http.Header
	body   []byte
}

// receive serves as the merchant's webhook endpoint, which answers its first failures messages with 500.
func receive(t *testing.T, failures int32) (url string, got <-chan delivery) {
	t.Helper()
	deliveries := make(chan delivery, 100)
	var count atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("reading a webhook: %v", err)
		}
		if count.Add(1) <= failures {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		deliveries <- delivery{r.Header, body}
	}))
	t.Cleanup(server.Close)
	return server.URL, deliveries
}

// verified waits for a webhook of the given type and checks its signature with the official library.
func verified(t *testing.T, got <-chan delivery, secret, kind string) map[string]any {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	hook := must.Get(standardwebhooks.NewWebhook(secret))(t)
	for {
		select {
		case <-ctx.Done():
			t.Fatalf("no %s came", kind)
		case d := <-got:
			if err := hook.Verify(d.body, d.header); err != nil {
				t.Errorf("signature of %s: %v", d.body, err)
			}
			var event map[string]any
			if err := json.Unmarshal(d.body, &event); err != nil {
				t.Fatalf("%s: %v", d.body, err)
			}
			if event["id"] != d.header.Get("webhook-id") {
				t.Errorf("webhook-id is %s, the event's id %v", d.header.Get("webhook-id"), event["id"])
			}
			if event["type"] == kind {
				return event
			}
		}
	}
}

// patience is how long a wait lasts that hangs. No test's result depends on it.
const patience = 5 * time.Minute

// until asks again and again until ok.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

const recipient = "0x1111111111111111111111111111111111111111"
