package e2e_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
)

// keyOf makes a key of m's merchant as body says and returns the merchant with it.
func (m merchant) keyOf(body any) merchant {
	m.t.Helper()
	next := m
	next.key = m.call("POST", "/api-keys", body).want(m.t, 201).get("api_key")
	return next
}

// TestScopesAtTheGate calls every endpoint with a key of its scope alone, and with
// one of all other scopes, through API Gateway and the authorizer.
func TestScopesAtTheGate(t *testing.T) {
	s := start(t)
	m := newMerchant(t, s)
	with, without := map[apikey.Scope]merchant{}, map[apikey.Scope]merchant{}
	for _, scope := range apikey.AllScopes() {
		with[scope] = m.keyOf(map[string]any{"scopes": []apikey.Scope{scope}})
		without[scope] = m.keyOf(map[string]any{"scopes": slices.DeleteFunc(apikey.AllScopes(), func(s apikey.Scope) bool { return s == scope })})
	}
	concrete := strings.NewReplacer("{tx_hash}", "0x"+strings.Repeat("0", 64), "{address}", recipient, "{delivery_id}", "dlv_1", "{id}",
		"id_1")
	for _, r := range httpapi.Routes {
		if r.Function == "" || r.Scope == "" {
			continue
		}
		path := concrete.Replace(r.Path)
		if a := with[r.Scope].call(r.Method, path, nil); a.status == 403 || a.status == 401 {
			t.Errorf("%s %s with %s alone: %d %s", r.Method, path, r.Scope, a.status, a.text)
		}
		if a := without[r.Scope].call(r.Method, path, "\xff", "Idempotency-Key", "a b"); a.status != 403 ||
			a.body["code"] != "key_not_permitted" {
			t.Errorf("%s %s without %s: %d %s", r.Method, path, r.Scope, a.status, a.text)
		}
	}
}

// TestSuspendedAtTheGate: within the authorizer's cache time a suspended merchant is
// refused, and the payment that it was answered 201 for is settled and announced.
func TestSuspendedAtTheGate(t *testing.T) {
	o := newOperator(t)
	m := newMerchant(t, o.s)
	endpoint, got := receive(t, 0)
	secret := m.call("POST", "/webhooks", map[string]any{"url": endpoint}).want(t, 201).get("secret")
	m.call("POST", "/send-payment", map[string]any{"to": recipient, "amount": 7}).want(t, 201)
	began := time.Now()
	o.ok(nil, "merchants", "suspend", m.owner, "--reason", "stolen", "--yes")
	until(t, "the refusal", 90*time.Second, func() bool { return m.call("GET", "/transactions", nil).status == 403 })
	if a := m.call("POST", "/send-payment", map[string]any{"to": recipient, "amount": 7}).want(t,
		403); a.body["code"] != "merchant_suspended" {
		t.Error(a.text)
	}
	t.Logf("refused %v after the command began", time.Since(began).Round(time.Second))
	verified(t, got, secret, "payment.confirmed")
	o.ok(nil, "merchants", "resume", m.owner, "--yes")
	o.ok(nil, "merchants", "limit", m.owner, "--max-amount", "6", "--yes")
	until(t, "the merchant's own limit", 90*time.Second, func() bool {
		a := m.call("POST", "/send-payment", map[string]any{"to": recipient, "amount": 7})
		return a.status == 400 && a.body["code"] == "amount_above_maximum"
	})
}
