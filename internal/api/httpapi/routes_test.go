package httpapi_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/tabletest"
)

// TestUnknownRoutes: paths are taken literally, and an unknown one is answered before the key is checked.
func TestUnknownRoutes(t *testing.T) {
	tabletest.Run(t, words, func(t *testing.T, c tabletest.Case) {
		a := newAPI(t)
		a.play(c.In[0]).outcome(t, c.Want)
		a.play(c.In[0], "X-Api-Key: wrong").outcome(t, c.Want)
	})
}

// TestUnknownMethods: a method that a path does not have is 405 with exactly
// the path's methods, HEAD and OPTIONS included, with or without a key.
func TestUnknownMethods(t *testing.T) {
	paths := map[string]string{}
	for _, r := range httpapi.Routes {
		paths[r.Path] = strings.TrimPrefix(paths[r.Path]+", "+r.Method, ", ")
	}
	a := newAPI(t)
	for path, methods := range paths {
		for _, method := range []string{"GET", "POST", "HEAD", "OPTIONS", "PUT", "PATCH", "DELETE", "TRACE", "get"} {
			if strings.Contains(", "+methods+",", ", "+method+",") {
				continue
			}
			got := a.send(method, concrete(path), "", "X-Api-Key: (none)")
			if got.status != 405 || got.header.Get("Allow") != methods {
				t.Errorf("%s %s: %d, Allow %q, want %q", method, path, got.status, got.header.Get("Allow"), methods)
			}
		}
	}
}

func concrete(path string) string {
	return strings.NewReplacer("{tx_hash}", exampleHash, "{address}", alice, "{delivery_id}", "dlv_1", "{id}", "id_1").Replace(path)
}

// TestSingleEndpoint: an endpoint alone checks route and method, and trusts only the caller in its context.
func TestSingleEndpoint(t *testing.T) {
	a := newAPI(t)
	e := httpapi.ListWebhooks(a.hooks.Registry)
	caller := apikey.Principal{MerchantID: a.merchant, KeyID: "key_1", Mode: apikey.Test, Grant: apikey.Full()}
	tabletest.Run(t, nil, func(t *testing.T, c tabletest.Case) {
		method, path, _ := strings.Cut(c.In[0], " ")
		r := a.request(method, path, "") // its key alone proves nothing here
		switch c.In[1] {
		case "two keys":
			r.Header["X-Api-Key"] = slices.Repeat(r.Header["X-Api-Key"], 2)
			fallthrough
		case "a caller":
			r = r.WithContext(apikey.WithPrincipal(r.Context(), caller))
		}
		a.serve(e, r).outcome(t, c.Want)
	})
}

// TestOpenAPIIsComplete: every route is described under its handler's name, and nothing else is.
func TestOpenAPIIsComplete(t *testing.T) {
	described := map[string]map[string]any{}
	for _, op := range operations(describe(t)) {
		described[fmt.Sprint(op["method"], " ", op["path"])] = op
	}
	for _, r := range httpapi.Routes {
		op := described[r.Method+" "+r.Path]
		delete(described, r.Method+" "+r.Path)
		id := fmt.Sprint(op["operationId"])
		if !strings.EqualFold(id, r.Handler) || id[:1] != strings.ToLower(r.Handler[:1]) {
			t.Errorf("%s %s: operationId %s, handler %s", r.Method, r.Path, id, r.Handler)
		}
		security, stated := op["security"].([]any)
		if open := stated && len(security) == 0; open == (r.Scopes != 0) {
			t.Errorf("%s: needs a key: %v; openapi.yaml says: %v", id, r.Scopes != 0, op["security"])
		}
		for _, part := range []string{"summary", "tags", "responses"} {
			if op[part] == nil {
				t.Errorf("%s has no %s", id, part)
			}
		}
		if op["requestBody"] == nil && r.Method == "POST" {
			t.Errorf("%s has no requestBody", id)
		}
		if responses := object(op["responses"]); r.Scopes != 0 && responses["401"] == nil || responses["500"] == nil {
			t.Errorf("%s: 401 or 500 is not described", id)
		}
	}
	for op := range described {
		t.Errorf("openapi.yaml describes %s, which is no route", op)
	}
}

// TestRequestsAreDescribed: an endpoint reads the properties that openapi.yaml gives its request, up to their greatest
// lengths, and no other field. Package guard limits a URL, and each scope is given once.
func TestRequestsAreDescribed(t *testing.T) {
	doc, read := describe(t), map[string]any{}
	for _, file := range must.Get(filepath.Glob("*.go"))(t) {
		for _, m := range regexp.MustCompile(`\b(f|one)\.\w+\("(\w+)"`).FindAllSubmatch(must.Get(os.ReadFile(file))(t), -1) {
			read[string(m[2])] = nil
		}
	}
	check := func(op map[string]any, form, loc string, schema any) {
		fields := maps.Clone(read)
		maps.Copy(fields, object(dig(schema, "properties")))
		for field, described := range fields {
			refuses := func(value, with string) bool {
				got := newAPI(t).post(concrete(fmt.Sprint(op["path"])), fmt.Sprintf(form, field, value), "Idempotency-Key: k")
				return strings.Contains(got.body, with) && !strings.Contains(got.body, "proposals_only")
			}
			inEntry := field == "asset" && strings.Contains(form, "payments") // is read to be refused
			if got := refuses("true", fmt.Sprintf(loc, field)); got != (described != nil) && !inEntry {
				t.Errorf("%s reads %s: %t; its schema in openapi.yaml has it: %t", op["operationId"], field, got, !got)
			}
			for _, limit := range [][5]string{{"maxLength", `"a`, "a", `"`, "string_too_long"}, {"maxItems", "[0", ",0", "]", "too_many"}} {
				most, ok := dig(described, limit[0]).(int)
				for n := most; ok && n <= most+1 && field != "url" && field != "scopes"; n++ {
					if got := refuses(limit[1]+strings.Repeat(limit[2], n-1)+limit[3], limit[4]); got != (n > most) {
						t.Errorf("%s refuses %d of %s: %t; openapi.yaml: %d", op["operationId"], n, field, got, most)
					}
				}
			}
		}
	}
	for _, op := range operations(doc) {
		if op["requestBody"] != nil {
			body := follow(doc, dig(follow(doc, op["requestBody"]), "content", "application/json", "schema"))
			check(op, `{%q:%s}`, `["body",%q]`, body)
			check(op, `{"payments":[{%q:%s}]}`, `["body","payments",0,%q]`, follow(doc, dig(body, "properties", "payments", "items")))
		}
	}
}

// TestUnauthorized: every fault of a key, on every route that needs one, has the same answer of 28 bytes.
// Package apikey has the faults of a single key.
func TestUnauthorized(t *testing.T) {
	a := newAPI(t)
	old := a.key
	a.key = a.rotate(a.keyID(), 0).Secret.Reveal()
	tabletest.Run(t, map[string]string{"key": a.key, "old": old}, func(t *testing.T, c tabletest.Case) {
		for _, r := range httpapi.Routes {
			if got := a.send(r.Method, concrete(r.Path), "", c.In...); r.Scopes != 0 && fmt.Sprint(got.status, " ", got.body) != c.Want {
				t.Errorf("%s %s: %d %q", r.Method, r.Path, got.status, got.body)
			}
		}
	})
	if len(a.payments.got) > 0 {
		t.Error("a request without a key reached dispatch")
	}
}

func TestWhoNeedsNoKey(t *testing.T) { answers(t, newAPI, "%s") }

// TestOrderOfChecks: each request has one fault and all that the contract checks later; the answer names the first.
func TestOrderOfChecks(t *testing.T) {
	begin := func(t *testing.T) *api {
		a := newAPI(t)
		steps["above the maximum"](a)
		return a
	}
	answers(t, begin, "%s")
}

func TestRequestID(t *testing.T) { answers(t, newAPI, "GET /webhooks") }

// TestOurFailures: an internal failure is a 500 that tells no cause; the log has the cause and the request id.
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

type unmetered struct{}

func (unmetered) AddOf(string, string, string, float64) {}
func (unmetered) Flush() error                          { return nil }

// TestARefusalIsALine: of a refused request a function logs the answer's id and the code, and no word of the client.
func TestARefusalIsALine(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	e := httpapi.Sandbox(func(context.Context) (any, error) { return nil, nil }).Metered(unmetered{}, "sandbox:1")
	got := newAPI(t).serve(e, newRequest(t, "POST", "/sandbox?m4rk=m4rk", ""))
	want := `msg="request refused" request_id=` + got.header.Get("X-Request-Id") + " status=405 code=method_not_allowed\n"
	if _, line, _ := strings.Cut(log.String(), "level=INFO "); line != want {
		t.Errorf("logged %q, want %q", log.String(), want)
	}
}

type brokenKeys struct{}

func (brokenKeys) Authenticate(context.Context, string, time.Time) (apikey.Principal, error) {
	return apikey.Principal{}, errBroken
}

// TestNothingIsEchoed looks in refusals for the mark that every part of a request has.
func TestNothingIsEchoed(t *testing.T) {
	tabletest.Run(t, words, func(t *testing.T, c tabletest.Case) {
		got := newAPI(t).play(c.In...)
		got.outcome(t, c.Want)
		got.header.Del("X-Request-Id") // which may have the mark by chance
		if all := strings.ToLower(fmt.Sprint(got.header, got.body)); strings.Contains(all, "m4rk") {
			t.Errorf("echoed: %s", all)
		}
	})
}

type anyKey struct{ merchant string }

func (k anyKey) Authenticate(context.Context, string, time.Time) (apikey.Principal, error) {
	return apikey.Principal{MerchantID: k.merchant, KeyID: "key_1", Mode: apikey.Test, Grant: apikey.Full()}, nil
}

// TestContentTypes: application/json or application/*+json in UTF-8, and not compressed.
func TestContentTypes(t *testing.T) { answers(t, newAPI, "POST /send-payment "+goodBody) }

// TestBodies: one strict JSON object of at most 64 KiB.
func TestBodies(t *testing.T) { answers(t, newAPI, "POST /create-api-key %s") }

// TestBodyOfUnknownLength: a chunked body has the same limits, and a truncated one is refused.
func TestBodyOfUnknownLength(t *testing.T) {
	answers(t, newAPI, "%s")
	a := newAPI(t)
	r := a.request("POST", "/send-payment", "")
	r.Body, r.ContentLength = io.NopCloser(io.MultiReader(strings.NewReader(`{"to":`), iotest.ErrReader(io.ErrUnexpectedEOF))), -1
	a.serve(a.router, r).want(t, 422, `"json_invalid"`, `["body",6]`)
}

// TestActions: endpoints that need no input take an empty body for {}.
func TestActions(t *testing.T) {
	tabletest.Run(t, words, func(t *testing.T, c tabletest.Case) {
		for _, path := range []string{"/api-keys/" + words["key"] + "/rotate", "/api-keys/" + words["key"] + "/revoke",
			"/webhooks/" + exampleHook + "/rotate-secret", "/webhooks/" + exampleHook + "/test",
			"/webhooks/" + exampleHook + "/deliveries/dlv_1/resend", "/webhooks/" + exampleHook + "/delete"} {
			got := newAPI(t).hooked(1).post(path, c.In[0], c.In[1:]...)
			if !strings.HasPrefix(strconv.Itoa(got.status), c.Want) {
				t.Errorf("%s: answered %d %s", path, got.status, got.body)
			}
		}
	})
}
