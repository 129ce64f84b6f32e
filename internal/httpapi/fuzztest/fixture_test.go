// Package fuzztest_test fuzzes the endpoints. It stands apart from their other
// tests, whose validator is large: the fuzzer instruments all that is linked.
package fuzztest_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"remit/internal/apikey"
	"remit/internal/chain"
	"remit/internal/dispatch"
	"remit/internal/httpapi"
	"remit/internal/payment"
	"remit/internal/store"
	"remit/internal/token"
)

const (
	alice     = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed" // an example of EIP-55
	maxAmount = "115792089237316195423570985008687907853269984665640564039457584007913129639935"
)

var coin = token.Token{Symbol: "USDC", Decimals: 6, Contract: token.Address{0xc0}}

func newID() string { return "req-1" }

// engine takes every request that reaches it and remembers the last one.
type engine struct{ got *payment.Request }

func (e *engine) Send(_ context.Context, r payment.Request) (dispatch.Result, error) {
	e.got = &r
	p, err := payment.New("pay_1", r, coin, "x", time.Unix(1, 0)).Commit(chain.Signed{Hash: chain.Hash{1}, Raw: []byte{1}}, time.Unix(1, 0))
	return dispatch.Result{Payment: p}, err
}

// history has one page and one more.
type history struct{}

func (history) List(_ context.Context, f store.Filter) ([]payment.Payment, bool, error) {
	p := payment.New("pay_1", payment.Request{Merchant: f.Merchant}, coin, "x", time.Unix(1, 0))
	return []payment.Payment{p}, f.From.ID == "", nil
}

func (history) Payment(context.Context, payment.ID) (payment.Payment, error) {
	return payment.Payment{}, store.ErrNotFound
}

// serve sends a request of a merchant to an endpoint.
func serve(t *testing.T, e http.Handler, method, path, query, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(t.Context(), method, "/", strings.NewReader(body))
	r.URL = &url.URL{Path: path, RawQuery: query}
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	e.ServeHTTP(w, r.WithContext(apikey.WithPrincipal(r.Context(),
		apikey.Principal{MerchantID: "mer_1", Mode: apikey.Test, Grant: apikey.Full()})))
	if w.Code >= 500 {
		t.Fatalf("%s %s?%s %q: answered %d %s", method, path, query, body, w.Code, w.Body)
	}
	return w
}

// pay posts to send-payment and returns the request that reached the engine, nil
// if none did.
func pay(t *testing.T, body string) (*payment.Request, *httptest.ResponseRecorder) {
	e := &engine{}
	w := serve(t, httpapi.SendPayment(newID, e, coin), "POST", "/send-payment", "", body)
	if (w.Code == 201) != (e.got != nil) {
		t.Fatalf("%q: answered %d %s, asked for %+v", body, w.Code, w.Body, e.got)
	}
	return e.got, w
}
