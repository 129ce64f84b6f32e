package httpapi_test

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
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

// TestIdempotencyKeys: 1 to 255 visible ASCII characters, raw or in one pair of quotes.
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

// TestNothingIsStartedForARefusedRequest: dispatch never sees a request that is refused for its content.
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

func TestWebhookRegistration(t *testing.T) { answers(t, newAPI, "POST /webhooks %s") }

// TestWebhookLife: register, list, change, rotate, delete; secrets are shown twice, there and nowhere else.
func TestWebhookLife(t *testing.T) {
	a := newAPI(t)
	first := a.post("/webhooks", newHook).member(t, "secret")
	a.now = a.now.Add(time.Second)
	second := a.post("/webhooks", newHook)
	list := a.get("/webhooks")
	if newest, first := strings.Index(list.body, second.member(t, "id")), strings.Index(list.body, exampleHook); newest < 0 || newest > first {
		t.Errorf("the newest webhook is not first: %s", list.body)
	}
	tabletest.Run(t, words, func(t *testing.T, c tabletest.Case) {
		a.play(c.In...).outcome(t, strings.ReplaceAll(c.Want, "SECRET", first))
	})
}

// TestWebhookLimit: the eleventh is refused; a deleted one makes room.
func TestWebhookLimit(t *testing.T) { answers(t, newAPI, "%s") }

// TestWebhookRefusals: the merchant's answer for each error of package webhook.
func TestWebhookRefusals(t *testing.T) { answers(t, newAPI, "%s") }

// TestWhatIsNoIDReadsNothing: an id that no key or webhook can have is 404 before any read, since a table may refuse it
// for a key (DynamoDB takes 1,024 bytes). The endpoints here have no store.
func TestWhatIsNoIDReadsNothing(t *testing.T) {
	hooks, keys := webhook.NewRegistry(nil, nil, time.Now, nil), apikey.NewRegistry(nil, apikey.Test, time.Now, nil)
	log, tester := webhook.NewLog(nil, nil, time.Now, nil), webhook.NewTester(webhook.Sealed{}, nil, time.Now, nil)
	good, long := "we_"+strings.Repeat("0", 24), strings.Repeat("a", 1100)
	for path, e := range map[string]httpapi.Endpoint{
		"POST /webhooks/%s 404 webhook":                                 httpapi.UpdateWebhook(hooks),
		"POST /webhooks/%s/delete 404 webhook":                          httpapi.DeleteWebhook(hooks),
		"POST /webhooks/%s/rotate-secret 404 webhook":                   httpapi.RotateWebhookSecret(hooks),
		"POST /webhooks/%s/test 404 webhook":                            httpapi.TestWebhook(tester),
		"GET /webhooks/%s/deliveries 404 webhook":                       httpapi.ListDeliveries(log),
		"POST /webhooks/%s/deliveries/dlv_1/resend 404 webhook":         httpapi.ResendDelivery(log),
		"POST /webhooks/" + good + "/deliveries/%s/resend 404 delivery": httpapi.ResendDelivery(log),
		"POST /api-keys/%s/rotate 404 api_key":                          httpapi.RotateAPIKey(keys, nil),
		"POST /api-keys/%s/revoke 404 api_key":                          httpapi.RevokeAPIKey(keys),
	} {
		part := strings.Fields(path)
		for _, id := range []string{long, "we_" + long, "we_0", good + "0", strings.ToUpper(good), "dlv_" + strings.Repeat("0", 31),
			"key_" + strings.Repeat("0", 13), "key_-23456789012"} {
			r := httptest.NewRequest(part[0], fmt.Sprintf(part[1], id), strings.NewReader("{}"))
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			e.ServeHTTP(w, r.WithContext(apikey.WithPrincipal(t.Context(), apikey.Principal{Grant: apikey.Full()})))
			if want := `"code":"` + part[3] + `_not_found"`; w.Code != 404 || !strings.Contains(w.Body.String(), want) {
				t.Errorf("%s with %.30s: %d %s", path, id, w.Code, w.Body)
			}
		}
	}
}
