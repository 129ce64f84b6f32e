package httpapi_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"remit/internal/apikey"
	"remit/internal/httpapi"
	"remit/internal/store"
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
	expired, err := a.keys.Rotate(t.Context(), a.merchant, a.keyID(), 0)
	must(t, err)
	old := a.key
	a.key = expired.Secret.Reveal()
	revoked := a.otherMerchant()
	if _, err := a.keys.Revoke(t.Context(), revoked.Key.MerchantID, revoked.Key.ID); err != nil {
		t.Fatal(err)
	}
	live, err := apikey.Mint(&counter{}, apikey.Live)
	must(t, err)
	unknown, err := apikey.Mint(&counter{next: 77}, apikey.Test)
	must(t, err)
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
				if !r.Key {
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

func TestWhoNeedsNoKey(t *testing.T) {
	a := newAPI(t)
	for path, body := range map[string]string{"/create-api-key": `{"merchant_name":"x"}`, "/docs": "", "/openapi.json": "", "/sandbox": ""} {
		method := "GET"
		if body != "" {
			method = "POST"
		}
		if got := a.send(method, path, body, "X-Api-Key: (none)"); got.status/100 != 2 {
			t.Errorf("%s %s: %d", method, path, got.status)
		}
	}
}

// TestOrderOfChecks: each request has one fault and all that the contract checks
// later; the answer names the first.
func TestOrderOfChecks(t *testing.T) {
	big := `{"amount":"x"` + strings.Repeat(" ", 65536)
	for _, test := range []struct {
		name, method, path, body string
		headers                  []string
		status                   int
		part                     string
	}{
		{"route before key", "POST", "/send-payments", "\xff", []string{"X-Api-Key: x", "Content-Type: x"}, 404, `Not Found`},
		{"method before key", "PUT", "/send-payment", "\xff", []string{"X-Api-Key: x", "Content-Type: x"}, 405, `method_not_allowed`},
		{"key before content type", "POST", "/send-payment", "\xff", []string{"X-Api-Key: x", "Content-Type: x"}, 401, `Invalid API Key`},
		{"content type before size", "POST", "/send-payment", big, []string{"Content-Type: x"}, 422, `content-type`},
		{"size before parsing", "POST", "/send-payment", big + "\xff", nil, 413, `body_too_large`},
		{"UTF-8 before JSON", "POST", "/send-payment", `{"amount"` + "\xff", nil, 400, `body_not_utf8`},
		{"JSON before fields", "POST", "/send-payment", `{"amount":"x",}`, nil, 422, `json_invalid`},
		{"fields before the idempotency key", "POST", "/send-payment", `{"amount":"x"}`, []string{"Idempotency-Key: a b"}, 422, `number_type`},
		{"the idempotency key before limits", "POST", "/send-payment", goodBody, []string{"Idempotency-Key: a b"}, 400, `idempotency_key_invalid`},
		{"limits last", "POST", "/send-payment", goodBody, nil, 400, `amount_above_maximum`},
		{"fields of an action before what it acts on", "POST", "/api-keys/nope/rotate", `{"expires_in_seconds":-1}`, nil, 422, `not_positive`},
		{"what it acts on last", "POST", "/api-keys/nope/rotate", `{}`, nil, 404, `api_key_not_found`},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := newAPI(t)
			a.payments.refuse = errAboveMaximum
			a.send(test.method, test.path, test.body, test.headers...).want(t, test.status, test.part)
		})
	}
}

func TestRequestID(t *testing.T) {
	long := strings.Repeat("x", 128)
	for _, test := range []struct {
		name    string
		headers []string
		want    string
	}{
		{"ours when none was sent", nil, "req-1"},
		{"the caller's", []string{"X-Request-Id: order.2041_a-B"}, "order.2041_a-B"},
		{"the longest one", []string{"X-Request-Id: " + long}, long},
		{"not one that is longer", []string{"X-Request-Id: " + long + "x"}, "req-1"},
		{"not an empty one", []string{"X-Request-Id: "}, "req-1"},
		{"not one with other characters", []string{"X-Request-Id: a b"}, "req-1"},
		{"not one with markup", []string{"X-Request-Id: <script>"}, "req-1"},
		{"not one of two", []string{"X-Request-Id: a", "X-Request-Id: b"}, "req-1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := newAPI(t).get("/webhooks", test.headers...)
			if id := got.header.Get("X-Request-Id"); id != test.want {
				t.Errorf("X-Request-Id %q, want %q", id, test.want)
			}
		})
	}
}

// TestCommonHeaders: the contract holds these headers on every answer of every
// test; this test has an answer of each kind.
func TestCommonHeaders(t *testing.T) {
	a := newAPI(t)
	for name, got := range map[string]answered{
		"200": a.get("/webhooks"), "201": a.pay(), "400": a.post("/webhooks", "\xff"), "401": a.get("/webhooks", "X-Api-Key: x"),
		"404": a.get("/"), "405": a.send("PUT", "/webhooks", ""), "422": a.post("/webhooks", "{}"),
	} {
		if got.header.Get("Content-Type") != "application/json" || got.header.Get("Cache-Control") != "no-store" || got.header.Get("X-Request-Id") == "" {
			t.Errorf("%s: %v", name, got.header)
		}
	}
}

// TestOurFailures: an internal failure is a 500 that tells no cause; the log has
// the cause and the request id.
func TestOurFailures(t *testing.T) {
	for _, test := range []struct {
		name string
		send func(*api) answered
	}{
		{"a store that is down", func(a *api) answered { a.payments.fail = errBroken; return a.get("/transaction/" + exampleHash) }},
		{"a store that is down while a key is checked", func(a *api) answered {
			a.router = httpapi.NewRouter(brokenKeys{}, time.Now, func() string { return "req-1" }, httpapi.ListWebhooks(nil, a.hooks))
			return a.get("/webhooks")
		}},
		{"a stored payment that cannot be read", func(a *api) answered {
			a.payments.fail = errors.Join(store.ErrUnreadable, errBroken)
			return a.get("/transactions?idempotency_key=k")
		}},
		{"a panic", func(a *api) answered { a.hooks.Registry = nil; return a.get("/webhooks") }},
		{"facts that cannot be had", func(a *api) answered { a.sandbox = errBroken; return a.get("/sandbox") }},
		{"a body that cannot be written", func(a *api) answered {
			e := httpapi.Sandbox(func() string { return "req-1" }, func(context.Context) (any, error) { return func() {}, nil })
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
			if !strings.Contains(log.String(), "request_id=req-") {
				t.Errorf("logged %q, without the request", log.String())
			}
		})
	}
}

type brokenKeys struct{}

func (brokenKeys) Authenticate(context.Context, string, time.Time) (apikey.Principal, error) {
	return apikey.Principal{}, errBroken
}

// TestNothingIsEchoed puts a mark into every part of a request and looks for it
// in the refusals.
func TestNothingIsEchoed(t *testing.T) {
	const mark = "m4rk"
	a := newAPI(t)
	for _, got := range []answered{
		a.get("/" + mark),
		a.get("/balance/" + mark),
		a.get("/transaction/" + mark),
		a.get("/transactions?status=" + mark + "&limit=" + mark + "&cursor=" + mark + "&created_after=" + mark + "&" + mark + "=1&idempotency_key=" + mark + "%20"),
		a.get("/webhooks", "X-Api-Key: "+mark),
		a.get("/webhooks/" + mark + "/x"),
		a.post("/webhooks/"+mark, `{}`),
		a.post("/webhooks", `{"url":"ftp://`+mark+`","event_types":["`+mark+`"],"description":"`+strings.Repeat(mark, 200)+`"}`),
		a.post("/webhooks", `{"url":"ftp://`+mark+`","event_types":["`+mark+`"]}`),
		a.post("/api-keys/"+mark+"/revoke", ``),
		a.post("/create-api-key", `{"merchant_name":"`+mark+`\u0000"}`),
		a.post("/create-api-key", `{"`+mark+`":1,"`+mark+`":1}`),
		a.post("/create-api-key", mark),
		a.post("/send-payment", `{"wallet_address":"`+mark+`","to":"`+mark+`","amount":"`+mark+`","reference":["`+mark+`"],"metadata":{"`+mark+`":1}}`),
		a.post("/send-payment", goodBody, "Idempotency-Key: "+mark+" "+mark),
		a.post("/send-payment", goodBody, "Content-Type: "+mark, "Content-Encoding: "+mark),
		a.send(strings.ToUpper(mark), "/webhooks", ""),
	} {
		if got.status < 400 {
			t.Errorf("answered %d %s", got.status, got.body)
		}
		for name, values := range got.header {
			if strings.Contains(strings.Join(values, ""), mark) {
				t.Errorf("%s echoes the request", name)
			}
		}
		if strings.Contains(got.body, mark) {
			t.Errorf("echoed: %s", got.body)
		}
	}
}

// anyKey takes every key for its merchant's.
type anyKey struct{ merchant string }

func (k anyKey) Authenticate(context.Context, string, time.Time) (apikey.Principal, error) {
	return apikey.Principal{MerchantID: k.merchant, KeyID: "key_1", Mode: apikey.Test}, nil
}
