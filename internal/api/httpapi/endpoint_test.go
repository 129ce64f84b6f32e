package httpapi_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/tabletest"
)

// TestUnauthorized: every fault of a key, on every route that needs one, has the
// same answer of 28 bytes.
func TestUnauthorized(t *testing.T) {
	a := newAPI(t)
	flip := func(s string, i int) string {
		b := []byte(s)
		b[i] = map[bool]byte{true: 'b', false: 'a'}[b[i] == 'a']
		return string(b)
	}
	expired := a.rotate(a.keyID(), 0)
	old := a.key
	a.key = expired.Secret.Reveal()
	revoked := a.otherMerchant()
	must.Get(a.keys.Revoke(t.Context(), revoked.Key, revoked.Key.ID))(t)
	live := must.Get(apikey.Mint(&counter{}, apikey.Live))(t)
	unknown := must.Get(apikey.Mint(&counter{next: 77}, apikey.Test))(t)
	for _, test := range []struct {
		name    string
		headers []string
	}{
		{"no key", []string{"X-Api-Key: (none)"}},
		{"an empty key", []string{"X-Api-Key: "}},
		{"a blank key", []string{"X-Api-Key:  "}},
		{"a malformed key", []string{"X-Api-Key: nope"}},
		{"a mistyped key", []string{"X-Api-Key: " + flip(a.key, 30)}},
		{"a key in another case", []string{"X-Api-Key: " + strings.ToUpper(a.key)}},
		{"a well-formed key that is unknown", []string{"X-Api-Key: " + unknown.Reveal()}},
		{"a revoked key", []string{"X-Api-Key: " + revoked.Secret.Reveal()}},
		{"an expired key", []string{"X-Api-Key: " + old}},
		{"a key of the other mode", []string{"X-Api-Key: " + live.Reveal()}},
		{"the key twice", []string{"X-Api-Key: " + a.key, "X-Api-Key: " + a.key}},
		{"two keys in one header", []string{"X-Api-Key: " + a.key + ", " + a.key}},
		{"the key in another header", []string{"X-Api-Key: (none)", "Authorization: Bearer " + a.key}},
		{"the key with a blank behind it", []string{"X-Api-Key: " + a.key + " x"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, r := range httpapi.Routes {
				if r.Scope == "" {
					continue
				}
				got := a.send(r.Method, concrete(r.Path), "", test.headers...)
				if got.status != 401 || got.body != `{"detail":"Invalid API Key"}` || len(got.body) != 28 {
					t.Errorf("%s %s: %d %q", r.Method, r.Path, got.status, got.body)
				}
			}
		})
	}
	if len(a.payments.got) > 0 {
		t.Error("a request without a key reached dispatch")
	}
}

func TestWhoNeedsNoKey(t *testing.T) { answers(t, newAPI, "%s") }

// TestOrderOfChecks: each request has one fault and all that the contract checks
// later; the answer names the first.
func TestOrderOfChecks(t *testing.T) {
	begin := func(t *testing.T) *api {
		a := newAPI(t)
		steps["above the maximum"](a)
		return a
	}
	answers(t, begin, "%s")
}

func TestRequestID(t *testing.T) { answers(t, newAPI, "GET /webhooks") }

// TestOurFailures: an internal failure is a 500 that tells no cause; the log has
// the cause and the request id.
func TestOurFailures(t *testing.T) {
	for _, test := range []struct {
		name string
		send func(*api) answered
	}{
		{"a store that is down", func(a *api) answered { a.payments.fail = errBroken; return a.get("/transaction/" + exampleHash) }},
		{"a store that is down while a key is checked", func(a *api) answered {
			a.router = httpapi.NewRouter(brokenKeys{}, time.Now, httpapi.ListWebhooks(a.hooks.Registry))
			return a.get("/webhooks")
		}},
		{"a stored payment that cannot be read", func(a *api) answered {
			a.payments.fail = errors.Join(store.ErrUnreadable, errBroken)
			return a.get("/transactions?idempotency_key=k")
		}},
		{"a panic", func(a *api) answered { *a.hooks.Registry = webhook.Registry{}; return a.get("/webhooks") }},
		{"facts that cannot be had", func(a *api) answered { a.sandbox = errBroken; return a.get("/sandbox") }},
		{"a body that cannot be written", func(a *api) answered {
			e := httpapi.Sandbox(func(context.Context) (any, error) { return func() {}, nil })
			return a.serve(e, newRequest(a.T, "GET", "/sandbox", ""))
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var log bytes.Buffer
			before := slog.Default()
			slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
			defer slog.SetDefault(before)
			got := test.send(newAPI(t))
			if got.status != 500 || got.body != `{"detail":"Internal Server Error","code":"internal_error"}` {
				t.Errorf("%d %s", got.status, got.body)
			}
			if !strings.Contains(log.String(), "request_id="+got.header.Get("X-Request-Id")) {
				t.Errorf("logged %q, without the request", log.String())
			}
		})
	}
}

type brokenKeys struct{}

func (brokenKeys) Authenticate(context.Context, string, time.Time) (apikey.Principal, error) {
	return apikey.Principal{}, errBroken
}

// TestNothingIsEchoed looks in refusals for the mark that every part of a request
// has.
func TestNothingIsEchoed(t *testing.T) {
	tabletest.Run(t, words, func(t *testing.T, c tabletest.Case) {
		got := newAPI(t).play(c.In...)
		got.outcome(t, c.Want)
		if all := strings.ToLower(fmt.Sprint(got.header, got.body)); strings.Contains(all, "m4rk") {
			t.Errorf("echoed: %s", all)
		}
	})
}

// anyKey takes every key for its merchant's.
type anyKey struct{ merchant string }

func (k anyKey) Authenticate(context.Context, string, time.Time) (apikey.Principal, error) {
	return apikey.Principal{MerchantID: k.merchant, KeyID: "key_1", Mode: apikey.Test, Grant: apikey.Full()}, nil
}
