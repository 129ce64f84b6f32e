package httpapi_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/proof/tabletest"
)

// TestUnknownRoutes: paths are taken literally, and an unknown one is answered
// before the key is checked.
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
		for _, method := range []string{"GET", "POST", "HEAD", "OPTIONS", "PUT", "PATCH", "DELETE", "TRACE", "get", "BREW"} {
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

// concrete fills in a route's parameters.
func concrete(path string) string {
	return strings.NewReplacer("{tx_hash}", exampleHash, "{address}", alice, "{delivery_id}", "dlv_1", "{id}", "id_1").Replace(path)
}

// TestSingleEndpoint: behind its one Lambda route an endpoint checks route and
// method itself, and trusts only the caller in its context.
func TestSingleEndpoint(t *testing.T) {
	a := newAPI(t)
	e := httpapi.ListWebhooks(a.hooks.Registry)
	caller := apikey.Principal{MerchantID: a.merchant, KeyID: "key_1", Mode: apikey.Test, Grant: apikey.Full()}
	for _, test := range []struct {
		name, method, path string
		principal          bool
		want               int
		allow              string
	}{
		{"its route with a caller", "GET", "/webhooks", true, 200, ""},
		{"its route reached past the authorizer fails closed", "GET", "/webhooks", false, 401, ""},
		{"another method of its path lists all the path's methods", "PUT", "/webhooks", true, 405, "POST, GET"},
		{"another route is not served here", "GET", "/transactions", true, 404, ""},
		{"a trailing slash that a gateway let pass", "GET", "/webhooks/", true, 404, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := a.request(test.method, test.path, "") // its key alone proves nothing here
			if test.principal {
				r = r.WithContext(apikey.WithPrincipal(r.Context(), caller))
			}
			got := a.serve(e, r)
			if got.status != test.want || got.header.Get("Allow") != test.allow {
				t.Errorf("%d, Allow %q: %s", got.status, got.header.Get("Allow"), got.body)
			}
		})
	}
}

// TestOpenAPIIsComplete: every route is described under its handler's name,
// and nothing else is.
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
		if open := stated && len(security) == 0; open == (r.Scope != "") {
			t.Errorf("%s: needs a key: %v; openapi.yaml says: %v", id, r.Scope != "", op["security"])
		}
		for _, part := range []string{"summary", "tags", "responses"} {
			if op[part] == nil {
				t.Errorf("%s has no %s", id, part)
			}
		}
		if op["requestBody"] == nil && r.Method == "POST" {
			t.Errorf("%s has no requestBody", id)
		}
		if responses := object(op["responses"]); r.Scope != "" && responses["401"] == nil || responses["500"] == nil {
			t.Errorf("%s: 401 or 500 is not described", id)
		}
	}
	for op := range described {
		t.Errorf("openapi.yaml describes %s, which is no route", op)
	}
}
