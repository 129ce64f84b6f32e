package httpapi_test

import (
	"io"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/remit-payouts/remit/internal/proof/tabletest"
)

// TestContentTypes: application/json or application/*+json in UTF-8, and not
// compressed.
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
