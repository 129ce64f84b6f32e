package e2e_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

const invalidKey = `{"detail":"Invalid API Key"}`

// TestKeysAtTheGate holds the answers that API Gateway and the authorizer give
// without a function.
func TestKeysAtTheGate(t *testing.T) {
	s := start(t)
	m := newMerchant(t, s)
	other := newMerchant(t, s)
	// API Gateway remembers a key that was used for a minute. These were not.
	revoked, expired := m.keyOf(map[string]any{}), m.keyOf(map[string]any{})
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

// id is the key's: it stands in the key.
func (m merchant) id() string { return "key_" + m.key[len("remit_test_"):][:12] }

// keyOf makes a key of m's merchant as body says and returns the merchant with it.
func (m merchant) keyOf(body any) merchant {
	m.t.Helper()
	next := m
	next.key = m.call("POST", "/api-keys", body).want(m.t, 201).get("api_key")
	return next
}

// rotated replaces the key of that id and returns the merchant with the new one.
func rotated(t *testing.T, m merchant, id string, overlap time.Duration) merchant {
	t.Helper()
	next := m
	next.key = m.call("POST", "/api-keys/"+id+"/rotate", map[string]int{"expires_in_seconds": int(overlap.Seconds())}).want(t,
		201).get("api_key")
	return next
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
