package client_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/remit-payouts/remit/internal/cli/client"
)

const hash = "0x88df016429689c079f3b2f6ad39fa052532c56795b733da78a91ebe6a713944b"

// TestRequests holds the request that a method sends and the value that it makes of
// an answer of openapi.yaml: of a payment, whose amount may exceed 64 bits, and of
// the methods that the tests of remit local, smoke and listen do not call.
func TestRequests(t *testing.T) {
	const payment = `{"tx_hash":"` + hash + `","status":"failed","amount":115792089237316195423570985008687907853269984665640564039457584007913129639935,` +
		`"onchain_tx_hash":null,"block_number":null,"version":2,"failure":{"code":"execution_reverted","message":"It reverted."}}`
	for _, row := range []struct {
		request string // line, headers of ours and body
		answer  string
		call    func(*client.Client) (any, error)
		want    any
	}{
		{
			`POST /send-payment [k] [order-1] {"to":"0x1","amount":1000000}`, payment,
			func(c *client.Client) (any, error) {
				p, err := c.Send(t.Context(), client.Order{To: "0x1", Amount: "1000000"}, "order-1")
				return []any{p.Hash, p.Status, p.Amount.String(), p.Failure.Code}, err
			}, []any{hash, "failed", "115792089237316195423570985008687907853269984665640564039457584007913129639935", "execution_reverted"},
		},
		{
			`GET /balance/0x1 [k] [] `, `{"address":"0x1","balance":2500000}`,
			func(c *client.Client) (any, error) { b, err := c.Balance(t.Context(), "0x1"); return b.String(), err }, "2500000",
		},
		{
			`GET /webhooks/we_1/deliveries [k] [] `, `{"data":[{"id":"del_1","event_type":"payment.failed","status":"pending"}]}`,
			func(c *client.Client) (any, error) { return c.Deliveries(t.Context(), "we_1") },
			[]client.Delivery{{Status: "pending"}},
		},
	} {
		var asked bytes.Buffer
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			asked.WriteString(r.Method + " " + r.URL.String() + " ")
			asked.WriteString("[" + r.Header.Get("x-api-key") + "] [" + r.Header.Get("Idempotency-Key") + "] " + string(body))
			if wants := len(body) > 0; wants != (r.Header.Get("Content-Type") == "application/json") {
				t.Errorf("%s: Content-Type %q", row.request, r.Header.Get("Content-Type"))
			}
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, row.answer)
		}))
		got, err := row.call(&client.Client{URL: server.URL, Key: "k"})
		server.Close()
		if err != nil {
			t.Errorf("%s: %v", row.request, err)
		}
		if diff := cmp.Diff(row.request, asked.String()); diff != "" {
			t.Errorf("request (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(row.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", row.request, diff)
		}
	}
}

// TestProblems: an answer other than 2xx is a *Problem with all that was
// answered, and an answer that ends too early is none.
func TestProblems(t *testing.T) {
	for _, row := range []struct {
		status     int
		body, code string
	}{
		{401, `{"detail":"Invalid API Key"}`, ""},
		{422, `{"detail":[{"type":"missing","loc":["body","to"],"msg":"Field required"}]}`, ""},
		{503, `{"detail":"Try again.","code":"payment_rail_unavailable"}`, "payment_rail_unavailable"},
		{502, `<html>`, ""},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(row.status)
			_, _ = io.WriteString(w, row.body)
		}))
		_, err := (&client.Client{URL: server.URL, Key: "secret"}).Transaction(t.Context(), hash)
		server.Close()
		p, ok := errors.AsType[*client.Problem](err)
		if !ok || p.Status != row.status || p.Code != row.code || string(p.Body) != row.body {
			t.Errorf("%d %s: %#v", row.status, row.body, err)
		}
	}
	cut := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"detail"`)
	}))
	defer cut.Close()
	_, err := (&client.Client{URL: cut.URL}).Transaction(t.Context(), hash)
	if _, ok := errors.AsType[*client.Problem](err); ok || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("an answer cut short is %#v", err)
	}
}
