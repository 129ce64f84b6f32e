package httpapi_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/tabletest"
)

const maxAmount = "115792089237316195423570985008687907853269984665640564039457584007913129639935" // 2^256-1

// TestAmounts: a JSON number with an integral value above zero, up to 2^256-1.
func TestAmounts(t *testing.T) {
	answers(t, newAPI, `POST /send-payment {"wallet_address":"`+alice+`","amount":%s}`)
}

// TestRecipients: "0x" and 40 hex digits of one case or as EIP-55 has them, of an
// address that a payment can be meant for.
func TestRecipients(t *testing.T) { answers(t, newAPI, `POST /send-payment {%s,"amount":1}`) }

// TestAttachments: reference and metadata. Lengths are code points.
func TestAttachments(t *testing.T) {
	answers(t, newAPI, `POST /send-payment {"to":"`+alice+`","amount":1,%s}`)
}

// TestEverythingWrongIsToldAtOnce: one answer names every bad field.
func TestEverythingWrongIsToldAtOnce(t *testing.T) {
	got := newAPI(t).post("/send-payment", `{"wallet_address":1,"to":"x","amount":true,"reference":"","metadata":[]}`)
	got.want(t, 422, `["body","wallet_address"]`, `["body","to"]`, `["body","amount"]`, `["body","reference"]`, `["body","metadata"]`)
}

// TestBatches: many payments, all or none.
func TestBatches(t *testing.T) { answers(t, newAPI, "POST /send-payments %s") }

// TestIdempotency: one key, one payment.
func TestIdempotency(t *testing.T) {
	const key = "Idempotency-Key: order-2041"
	a := newAPI(t)
	first := a.post("/send-payment", goodBody, key)
	first.want(t, 201, "Idempotent-Replayed: (none)")
	tabletest.Run(t, words, func(t *testing.T, c tabletest.Case) {
		got := a.play(append([]string{"POST /send-payment " + c.In[0]}, c.In[1:]...)...)
		got.outcome(t, c.Want)
		if replayed := got.header.Get("Idempotent-Replayed") != ""; replayed != (got.body == first.body) {
			t.Errorf("replayed %v: %s", replayed, got.body)
		}
	})
	t.Run("a rotated API key is the same merchant", func(t *testing.T) {
		m := a.rotate(a.keyID(), 0)
		got := a.post("/send-payment", goodBody, key, "X-Api-Key: "+m.Secret.Reveal())
		if got.body != first.body {
			t.Errorf("answered %s", got.body)
		}
	})
	t.Run("another merchant's key is another key", func(t *testing.T) {
		m := a.otherMerchant()
		got := a.post("/send-payment", goodBody, key, "X-Api-Key: "+m.Secret.Reveal())
		if got.status != 201 || got.body == first.body {
			t.Errorf("answered %d %s", got.status, got.body)
		}
	})
}

// TestIdempotencyKeys: 1 to 255 visible ASCII characters, raw or in one pair of
// quotes.
func TestIdempotencyKeys(t *testing.T) {
	tabletest.Run(t, words, func(t *testing.T, c tabletest.Case) {
		a := newAPI(t)
		r := a.request("POST", "/send-payment", goodBody)
		r.Header["Idempotency-Key"] = c.In
		got := a.serve(a.router, r)
		key, taken := strings.CutPrefix(c.Want, "201 ")
		if !taken {
			got.outcome(t, c.Want)
			return
		}
		got.want(t, 201)
		if a.payments.got[0].IdempotencyKey != key {
			t.Errorf("key %q, want %q", a.payments.got[0].IdempotencyKey, key)
		}
	})
}

// TestRefusals: dispatch's refusals, with a Retry-After if the client may retry.
func TestRefusals(t *testing.T) { answers(t, newAPI, "%s") }

// TestNothingIsStartedForARefusedRequest: dispatch never sees a request that is
// refused for its content.
func TestNothingIsStartedForARefusedRequest(t *testing.T) {
	a := newAPI(t)
	for _, body := range []string{``, `{`, `{}`, `{"to":"` + alice + `"}`, `{"amount":1}`, `{"to":"0x1","amount":1}`,
		`{"to":"` + alice + `","amount":0}`} {
		a.post("/send-payment", body)
	}
	a.post("/send-payment", goodBody, "Idempotency-Key: a b")
	if len(a.payments.got) > 0 {
		t.Errorf("dispatch was asked for %+v", a.payments.got)
	}
}

// TestRequestReachesTheEngine: field by field.
func TestRequestReachesTheEngine(t *testing.T) {
	a := newAPI(t)
	a.post("/send-payment", `{"wallet_address":"`+alice+`","amount":12,"reference":"r","metadata":{"k":"v"}}`, "Idempotency-Key: i").want(t,
		201)
	to := must.Get(token.ParseAddress(alice))(t)
	want := payment.Request{Merchant: a.merchant, Mode: "test", IdempotencyKey: "i", To: to, Amount: token.Units(12), Reference: "r",
		Metadata: map[string]string{"k": "v"}}
	if got := a.payments.got[0]; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("asked for %+v, want %+v", got, want)
	}
}
