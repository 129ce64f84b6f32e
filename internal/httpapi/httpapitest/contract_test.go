package httpapitest_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"remit/internal/httpapi/httpapitest"
)

func TestContract(t *testing.T) {
	c, err := httpapitest.NewContract()
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, method, path string
		status             int
		body               string
		change             func(http.Header)
		ok                 bool
	}{
		{"a documented answer", "GET", "/webhooks", 200, `{"data":[]}`, nil, true},
		{"a property that is not documented", "GET", "/webhooks", 200, `{"data":[],"more":1}`, nil, false},
		{"a property that is missing", "GET", "/webhooks", 200, `{}`, nil, false},
		{"a property of another type", "GET", "/webhooks", 200, `{"data":{}}`, nil, false},
		{"a status that is not documented", "GET", "/webhooks", 418, `{"detail":"x","code":"internal_error"}`, nil, false},
		{"a code that is not documented", "GET", "/webhooks", 500, `{"detail":"x","code":"oops"}`, nil, false},
		{"a 500 as documented", "GET", "/webhooks", 500, `{"detail":"Internal Server Error","code":"internal_error"}`, nil, true},
		{"an amount beyond 2^256-1", "GET", "/balance/0x0000000000000000000000000000000000000000", 200,
			`{"address":"0x0000000000000000000000000000000000000000","balance":1157920892373161954235709850086879078532699846656405640394575840079131296399360,"token":"USDC","decimals":6,"network":"x","block_number":1}`, nil, false},
		{"the exact 401", "GET", "/webhooks", 401, `{"detail":"Invalid API Key"}`, nil, true},
		{"a 401 with a line feed", "GET", "/webhooks", 401, "{\"detail\":\"Invalid API Key\"}\n", nil, false},
		{"a 401 with a code", "GET", "/webhooks", 401, `{"detail":"Invalid API Key","code":"x"}`, nil, false},
		{"another content type", "GET", "/webhooks", 200, `{"data":[]}`, func(h http.Header) { h.Set("Content-Type", "application/json; charset=utf-8") }, false},
		{"no request id", "GET", "/webhooks", 200, `{"data":[]}`, func(h http.Header) { h.Del("X-Request-Id") }, false},
		{"an answer that may be cached", "GET", "/webhooks", 200, `{"data":[]}`, func(h http.Header) { h.Set("Cache-Control", "max-age=1") }, false},
		{"a 405 without Allow", "GET", "/send-payment", 405, `{"detail":"Method Not Allowed","code":"method_not_allowed"}`, nil, false},
		{"a 503 without Retry-After", "GET", "/balance/x", 503, `{"detail":"x","code":"payment_rail_unavailable"}`, nil, false},
		{"a route's 404", "GET", "/nowhere", 404, `{"detail":"Not Found"}`, nil, true},
		{"what is no HTTP request", "GET", "/webhooks", 400, `{"detail":"This is not a well-formed HTTP request.","code":"request_malformed"}`, nil, true},
		{"what is no HTTP request, in other words", "GET", "/webhooks", 400, `{"detail":"400 Bad Request","code":"request_malformed"}`, nil, false},
		{"an HTML page", "GET", "/nowhere", 404, `<html>`, nil, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			answer := &http.Response{StatusCode: test.status, Body: io.NopCloser(strings.NewReader(test.body)), Header: http.Header{
				"Content-Type": {"application/json"}, "Cache-Control": {"no-store"}, "X-Request-Id": {"r1"},
			}}
			if test.change != nil {
				test.change(answer.Header)
			}
			err := c.Check(httptest.NewRequest(test.method, test.path, nil), answer)
			if (err == nil) != test.ok {
				t.Errorf("error = %v, want one: %v", err, !test.ok)
			}
		})
	}
}
