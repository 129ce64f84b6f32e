package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

const (
	invalidKey = `{"detail":"Invalid API Key"}`
	notFound   = `{"detail":"Not Found"}`
)

// TestKeysAtTheGate holds the answers that API Gateway and the authorizer give
// without a function.
func TestKeysAtTheGate(t *testing.T) {
	s := start(t)
	m := newMerchant(t, s)
	other := newMerchant(t, s)
	// API Gateway remembers a key that was used for a minute. These were not.
	issued := func() merchant {
		next := m
		next.key = m.call("POST", "/api-keys", map[string]any{}).want(t, 201).get("api_key")
		return next
	}
	revoked, expired := issued(), issued()
	m.call("POST", "/api-keys/"+revoked.id()+"/revoke", nil).want(t, 200)
	rotated(t, m, expired.id(), 0)

	for why, key := range map[string]string{
		"no key":                      "",
		"a blank key":                 " ",
		"no key of ours":              "secret",
		"a mistyped key":              m.key[:len(m.key)-1] + "!",
		"an unknown key":              "remit_test_0aB1cD2eF3gH_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefg0dDPM7",
		"a key of live mode":          strings.Replace(m.key, "_test_", "_live_", 1),
		"two keys in one":             m.key + ", " + other.key,
		"a key that is revoked":       revoked.key,
		"a key that was rotated away": expired.key,
		"a bearer token":              "Bearer " + m.key,
	} {
		for _, route := range []string{"GET /balance/" + recipient, "POST /send-payment", "GET /transaction/0x12", "GET /api-keys",
			"POST /webhooks"} {
			method, path, _ := strings.Cut(route, " ")
			a := merchant{t: t, s: s, key: key}.call(method, path, nil)
			if a.status != 401 || a.text != invalidKey {
				t.Errorf("%s at %s: %d %q", why, route, a.status, a.text)
			}
		}
	}
}

func first(t *testing.T, a answer) map[string]any {
	t.Helper()
	data, _ := a.body["data"].([]any)
	if len(data) == 0 {
		t.Fatalf("an empty list: %s", a.text)
	}
	item, _ := data[0].(map[string]any)
	return item
}

func TestRotatedKey(t *testing.T) {
	s := start(t)
	old := newMerchant(t, s)
	next := rotated(t, old, old.id(), time.Hour)
	for _, m := range []merchant{old, next} {
		m.call("GET", "/transactions", nil).want(t, 200)
	}
	list := next.call("GET", "/api-keys", nil).want(t, 200)
	if keys, _ := list.body["data"].([]any); len(keys) != 2 || first(t, list)["id"] != next.id() {
		t.Errorf("after a rotation: %s", list.text)
	}
	if strings.Contains(list.text, next.key[30:]) || strings.Contains(list.text, old.key[30:]) {
		t.Errorf("a list shows a key: %s", list.text)
	}
}

// id is the key's: it stands in the key.
func (m merchant) id() string { return "key_" + m.key[len("remit_test_"):][:12] }

// rotated replaces the key of that id and returns the merchant with the new one.
func rotated(t *testing.T, m merchant, id string, overlap time.Duration) merchant {
	t.Helper()
	next := m
	next.key = m.call("POST", "/api-keys/"+id+"/rotate", map[string]int{"expires_in_seconds": int(overlap.Seconds())}).want(t,
		201).get("api_key")
	return next
}

func TestUnknownRoutes(t *testing.T) {
	s := start(t)
	m := newMerchant(t, s)
	for _, route := range []string{"GET /", "GET /balances", "GET /send-payment", "DELETE /api-keys", "PUT /webhooks", "GET /docs",
		"POST /balance/" + recipient} {
		method, path, _ := strings.Cut(route, " ")
		for _, key := range []string{m.key, ""} {
			if a := (merchant{t: t, s: s, key: key}).call(method, path, nil); a.status != 404 || a.text != notFound {
				t.Errorf("%s: %d %q", route, a.status, a.text)
			}
		}
	}
}

// TestOddRequests sends requests through API Gateway that no client means to
// send. Each carries a mark where the gateway, the authorizer or a function reads it; that
// every answer is in openapi.yaml, call itself sees to.
func TestOddRequests(t *testing.T) {
	s := start(t)
	m := newMerchant(t, s)
	const mark = "Mk7qXv2LpZ9w"
	good := `{"to":"` + recipient + `","amount":1}`
	for _, test := range []struct {
		why, method, path string
		body              any
		status            int
		headers           []string
	}{
		{"an unknown path", "GET", "/" + mark, nil, 404, nil},
		{"an unknown path below a known one", "POST", "/webhooks/x/" + mark, `{}`, 404, nil},
		{"an escaped path", "GET", "/%2e%2e/" + mark, nil, 404, nil},
		{"a path with markup", "GET", "/%3Cscript%3E" + mark, nil, 404, nil},
		{"a path that is not UTF-8", "GET", "/balance/%ff" + mark, nil, 422, nil},
		{"a path with a NUL", "GET", "/transaction/%00" + mark, nil, 404, nil},
		{"a slash at the end", "GET", "/webhooks/", nil, 404, nil},
		{"two slashes", "GET", "//webhooks", nil, 404, nil},
		{"a dot in a path", "GET", "/./webhooks", nil, 404, nil},
		{"a way up in a path", "GET", "/" + mark + "/../webhooks", nil, 404, nil},
		{"a method that is none", strings.ToUpper(mark), "/webhooks", nil, 404, nil},
		{"OPTIONS", "OPTIONS", "/webhooks", nil, 404, []string{"Origin", "https://" + mark}},
		{"HEAD", "HEAD", "/webhooks", nil, 404, nil},
		{"PATCH", "PATCH", "/webhooks", `{}`, 404, nil},
		{"a bearer token at an unknown path", "GET", "/balances", nil, 404, []string{"Authorization", "Bearer " + mark}}, // DEFAULT_4XX on AWS
		{"a bearer token", "GET", "/webhooks", nil, 200, []string{"Authorization", "Bearer " + mark}},
		{"a key that is none", "GET", "/webhooks", nil, 401, []string{"x-api-key", mark}},
		{"a key of bytes", "GET", "/webhooks", nil, 401, []string{"x-api-key", mark + "\xff\xfe"}},
		{"a key of 6,000 characters", "GET", "/webhooks", nil, 401, []string{"x-api-key", strings.Repeat(mark, 500)}},
		{"a page is asked for", "GET", "/" + mark, nil, 404, []string{"Accept", "text/html"}},
		{"a body that is no JSON", "POST", "/send-payment", mark, 422, nil},
		{"a body that is not UTF-8", "POST", "/send-payment", mark + "\xff", 422, nil}, // the gateway makes U+FFFD of it
		{"a NUL in a body", "POST", "/create-api-key", `{"merchant_name":"` + mark + "\x00" + `"}`, 422, nil},
		{"a member given twice", "POST", "/create-api-key", `{"` + mark + `":1,"` + mark + `":1}`, 422, nil},
		{"a form", "POST", "/send-payment", good, 422, []string{"Content-Type", "multipart/form-data; boundary=" + mark}},
		{"a compressed body", "POST", "/send-payment", good, 422, []string{"Content-Encoding", mark}},
		{"an idempotency key with a blank", "POST", "/send-payment", good, 400, []string{"Idempotency-Key", mark + " x"}},
		{"a request id with markup", "GET", "/webhooks", nil, 200, []string{"X-Request-Id", "<b>" + mark}},
		{"a cursor of nobody's", "GET", "/transactions?cursor=" + mark, nil, 422, nil},
		{"a query with a broken escape", "GET", "/transactions?status=%zz" + mark, nil, 422, nil},
		{"a query that is not UTF-8", "GET", "/transactions?status=%ff" + mark, nil, 422, nil},
		{"64 KiB and a little", "POST", "/send-payment", `{"metadata":{"a":"` + strings.Repeat(mark, 6<<10) + `"}}`, 413, nil},
		{"seven megabytes", "POST", "/send-payment", `{"reference":"` + mark + strings.Repeat("a", 7<<20) + `"}`, 413, nil},
	} {
		a := m.served(test.method, test.path, test.body, test.headers...)
		if a.status != test.status {
			t.Errorf("%s: %d %s, want %d", test.why, a.status, a.text, test.status)
		}
		if strings.Contains(strings.ToLower(fmt.Sprint(a.header, a.text)), strings.ToLower(mark[:10])) {
			t.Errorf("%s is echoed: %v %s", test.why, a.header, a.text)
		}
	}
}

// TestThrottling: keys are handed out slower than anything else is answered.
func TestThrottling(t *testing.T) {
	s := start(t)
	m := merchant{t: t, s: s}
	for range 100 {
		a := m.call("POST", "/create-api-key", "{")
		if a.status == 422 {
			continue
		}
		const want = `{"detail":"Too many requests","code":"too_many_requests"}`
		if a.status != 429 || a.text != want || a.header.Get("Retry-After") != "1" {
			t.Errorf("got %d %s, Retry-After %q", a.status, a.text, a.header.Get("Retry-After"))
		}
		return
	}
	t.Error("100 requests for a key, one after the other, were all served")
}

// TestVerifyAWS runs the part of tools/verify-aws that needs nothing but a stack.
func TestVerifyAWS(t *testing.T) {
	s := start(t)
	m := newMerchant(t, s)
	cmd := exec.CommandContext(t.Context(), root+"/tools/verify-aws", "answers")
	cmd.Env = append(os.Environ(), "URL="+s.URL(""), "KEY="+m.key, "CURL_CA_BUNDLE="+s.Bundle)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "verified: answers") || strings.Count(string(out), "ok   ") != 5 {
		t.Errorf("%v:\n%s", err, out)
	}
}
