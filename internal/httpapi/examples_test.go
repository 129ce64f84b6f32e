package httpapi_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"

	"remit/internal/chain"
	"remit/internal/dispatch"
	"remit/internal/httpapi"
	"remit/internal/payment"
	"remit/internal/store"
	"remit/internal/webhook"
)

const (
	exampleHash = "0x88df016429689c079f3b2f6ad39fa052532c56795b733da78a91ebe6a713944b"
	exampleHook = "we_000102030405060708090a0b"
	newHook     = `{"url":"https://merchant.example/hooks","event_types":["payment.confirmed","payment.failed"]}`
)

// golden has the calls that make each example of openapi.yaml come about, by
// operation, status and name. Rows named "responses.X y" are of the responses
// that many operations share.
var golden = map[string]func(*api) answered{
	"createAPIKey 201 created":             func(a *api) answered { return a.post("/create-api-key", `{"merchant_name":"Acme Coffee"}`) },
	"createAPIKey 403 key_creation_closed": (*api).closed,
	"createAPIKey 422 missing":             func(a *api) answered { return a.post("/create-api-key", `{}`) },
	"createAPIKey 422 blank":               func(a *api) answered { return a.post("/create-api-key", `{"merchant_name":" \u3000"}`) },
	"listAPIKeys 200 listed":               func(a *api) answered { a.get("/webhooks"); return a.get("/api-keys") },
	"rotateAPIKey 201 rotated": func(a *api) answered {
		return a.post("/api-keys/"+a.keyID()+"/rotate", `{"expires_in_seconds":3600}`)
	},
	"revokeAPIKey 200 revoked": func(a *api) answered { return a.post("/api-keys/"+a.keyID()+"/revoke", `{}`) },

	"sendPayment 201 pending": func(a *api) answered { return a.pay() },
	"sendPayment 400 insufficient_funds": func(a *api) answered {
		a.payments.refuse = fmt.Errorf("reserving: %w", dispatch.ErrInsufficient)
		return a.pay()
	},
	"sendPayment 400 amount_below_minimum":  refused(dispatch.ErrAmountBelow),
	"sendPayment 400 amount_above_maximum":  refused(dispatch.ErrAmountAbove),
	"sendPayment 400 daily_limit_exceeded":  refused(store.ErrDailyLimit),
	"sendPayment 400 recipient_not_allowed": refused(dispatch.ErrRecipient),
	"sendPayment 400 idempotency_key_invalid": func(a *api) answered {
		return a.post("/send-payment", goodBody, "Idempotency-Key: a b")
	},
	"sendPayment 400 body_not_utf8": func(a *api) answered { return a.post("/send-payment", "\xff") },
	"sendPayment 422 several":       func(a *api) answered { return a.post("/send-payment", `{"amount":1.5}`) },
	"sendPayment 422 address_checksum": func(a *api) answered {
		return a.post("/send-payment", `{"amount":1,"wallet_address":"0x5aaeb6053F3E94C9b9A09f33669435E7Ef1BeAed"}`)
	},
	"sendPayment 422 recipient_mismatch": func(a *api) answered {
		return a.post("/send-payment", `{"amount":1,"wallet_address":"`+alice+`","to":"0x1111111111111111111111111111111111111111"}`)
	},
	"sendPayment 422 recipient_refused": func(a *api) answered {
		return a.post("/send-payment", `{"amount":1,"wallet_address":"`+ownWallet.String()+`"}`)
	},
	"sendPayment 422 json_invalid": func(a *api) answered { return a.post("/send-payment", `{amount:1}`) },
	"sendPayment 422 content_type": func(a *api) answered {
		return a.post("/send-payment", goodBody, "Content-Type: text/plain")
	},
	"sendPayment 422 idempotency_key_reused": func(a *api) answered {
		a.post("/send-payment", goodBody, "Idempotency-Key: k")
		return a.post("/send-payment", strings.Replace(goodBody, "1000000", "1000001", 1), "Idempotency-Key: k")
	},
	"getTransaction 200 pending": func(a *api) answered { a.pay(); return a.get("/transaction/" + exampleHash) },
	"getTransaction 200 confirmed": func(a *api) answered {
		a.finish(func(p payment.Payment, r chain.Receipt) (payment.Payment, error) { return p.Confirm(r, a.now) })
		return a.get("/transaction/" + exampleHash)
	},
	"getTransaction 200 failed": func(a *api) answered {
		a.finish(func(p payment.Payment, r chain.Receipt) (payment.Payment, error) {
			return p.Fail(payment.ExecutionReverted, r, a.now)
		})
		return a.get("/transaction/" + exampleHash)
	},
	"getTransaction 404 transaction_not_found": func(a *api) answered { return a.get("/transaction/" + exampleHash) },
	"listTransactions 200 empty":               func(a *api) answered { return a.get("/transactions") },
	"listTransactions 422 several":             func(a *api) answered { return a.get("/transactions?limit=0&status=paid") },
	"listTransactions 422 cursor_invalid":      func(a *api) answered { return a.get("/transactions?cursor=x") },
	"getBalance 200 balance":                   func(a *api) answered { return a.get("/balance/" + strings.ToLower(alice)) },
	"getBalance 422 address_invalid":           func(a *api) answered { return a.get("/balance/vitalik.eth") },

	"createWebhook 201 created":               func(a *api) answered { return a.post("/webhooks", newHook) },
	"createWebhook 400 webhook_limit_reached": (*api).eleventh,
	"createWebhook 422 missing":               func(a *api) answered { return a.post("/webhooks", `{}`) },
	"listWebhooks 200 listed":                 func(a *api) answered { return a.hooked().get("/webhooks") },
	"updateWebhook 200 disabled":              func(a *api) answered { return a.hooked().post("/webhooks/"+exampleHook, `{"status":"disabled"}`) },
	"updateWebhook 422 status":                func(a *api) answered { return a.hooked().post("/webhooks/"+exampleHook, `{"status":"deleted"}`) },
	"deleteWebhook 200 deleted":               func(a *api) answered { return a.hooked().post("/webhooks/"+exampleHook+"/delete", ``) },
	"rotateWebhookSecret 200 rotated": func(a *api) answered {
		return a.hooked().post("/webhooks/"+exampleHook+"/rotate-secret", `{"expires_in_seconds":3600}`)
	},
	"testWebhook 200 answered":                       func(a *api) answered { return a.post("/webhooks/"+exampleHook+"/test", `{}`) },
	"listDeliveries 200 listed":                      func(a *api) answered { return a.get("/webhooks/" + exampleHook + "/deliveries") },
	"resendDelivery 200 resent":                      func(a *api) answered { return a.post("/webhooks/"+exampleHook+"/deliveries/dlv_1/resend", ``) },
	"resendDelivery 404 delivery_not_found":          func(a *api) answered { return a.hookError(webhook.ErrDeliveryNotFound, "/deliveries/dlv_1/resend") },
	"responses.WebhookDisabled webhook_disabled":     func(a *api) answered { return a.hookError(webhook.ErrDisabled, "/test") },
	"responses.WebhookNotFound webhook_not_found":    func(a *api) answered { return a.post("/webhooks/we_1", `{}`) },
	"responses.WebhookChanged webhook_changed":       func(a *api) answered { return a.changed() },
	"sandbox 200 sandbox":                            func(a *api) answered { return a.get("/sandbox") },
	"responses.BodyNotUTF8 body_not_utf8":            func(a *api) answered { return a.post("/create-api-key", "\xff") },
	"responses.InvalidAPIKey invalid_api_key":        func(a *api) answered { return a.get("/api-keys", "X-Api-Key: nope") },
	"responses.RouteNotFound not_found":              func(a *api) answered { return a.get("/nowhere") },
	"responses.MethodNotAllowed method_not_allowed":  func(a *api) answered { return a.send("PUT", "/webhooks", `{}`) },
	"responses.APIKeyNotFound api_key_not_found":     func(a *api) answered { return a.post("/api-keys/key_1/revoke", ``) },
	"responses.InProgress idempotency_in_progress":   refused(dispatch.ErrInProgress),
	"responses.BodyTooLarge body_too_large":          func(a *api) answered { return a.post("/send-payment", strings.Repeat(" ", 65537)) },
	"responses.InvalidAction object_type":            func(a *api) answered { return a.post("/api-keys/key_1/revoke", `[]`) },
	"responses.InvalidOverlap too_large":             func(a *api) answered { return a.post("/api-keys/key_1/rotate", `{"expires_in_seconds":604801}`) },
	"responses.InternalError internal_error":         refused(errBroken),
	"responses.Unavailable payment_rail_unavailable": refused(errors.Join(dispatch.ErrUnavailable, errBroken, store.ErrNotFound)),
}

func (a *api) get(path string, headers ...string) answered {
	return a.send("GET", path, "", headers...)
}

func (a *api) post(path, body string, headers ...string) answered {
	return a.send("POST", path, body, headers...)
}

// pay sends the example's payment.
func (a *api) pay() answered {
	return a.post("/send-payment", `{"wallet_address":"`+alice+`","amount":1000000,"reference":"inv-2041","metadata":{"order":"2041"}}`)
}

func refused(err error) func(*api) answered {
	return func(a *api) answered { a.payments.refuse = err; return a.pay() }
}

// finish pays and ends that payment.
func (a *api) finish(end func(payment.Payment, chain.Receipt) (payment.Payment, error)) {
	a.pay().want(a.T, 201)
	a.end(end)
}

// confirm ends the first payment well.
func (a *api) confirm() {
	a.end(func(p payment.Payment, r chain.Receipt) (payment.Payment, error) { return p.Confirm(r, a.now) })
}

// end ends the first payment four seconds later.
func (a *api) end(end func(payment.Payment, chain.Receipt) (payment.Payment, error)) {
	a.now = a.now.Add(4 * time.Second)
	p := a.first()
	p, err := end(p, chain.Receipt{Tx: p.Attempts[0].Hash, Block: 19241000})
	must(a, err)
	must(a, a.payments.Finish(a.Context(), p))
}

// first returns the first payment.
func (a *api) first() payment.Payment {
	a.Helper()
	hash, err := chain.ParseHash(exampleHash)
	must(a, err)
	p, err := a.payments.PaymentByHash(a.Context(), hash)
	must(a, err)
	return p
}

// keyID returns the id of a's key.
func (a *api) keyID() string {
	list, err := a.keys.List(a.Context(), a.merchant)
	if err != nil || len(list) == 0 {
		a.Fatal(list, err)
	}
	return list[len(list)-1].ID
}

func (a *api) closed() answered {
	closed := httpapi.CreateAPIKey(func() string { return "req-1" }, nil)
	return a.serve(closed, newRequest(a.T, "POST", "/create-api-key", `{"merchant_name":"x"}`))
}

func (a *api) hooked() *api {
	a.post("/webhooks", newHook).want(a.T, 201)
	return a
}

func (a *api) eleventh() answered {
	for range webhook.EndpointLimit {
		a.hooked()
	}
	return a.post("/webhooks", newHook)
}

func (a *api) hookError(err error, path string) answered {
	a.hooks.refuse = fmt.Errorf("asking: %w", err)
	return a.post("/webhooks/"+exampleHook+path, ``)
}

func (a *api) changed() answered {
	a.hooks.Registry = webhook.NewRegistry(contended{}, a.hooks, func() time.Time { return epoch }, &counter{})
	return a.post("/webhooks/"+exampleHook+"/delete", ``)
}

// TestExamples makes every example of openapi.yaml come about: they are the
// golden bodies.
func TestExamples(t *testing.T) {
	examples := readExamples(t)
	delete(examples, "responses.MalformedRequest request_malformed") // no handler's: local.TestMalformedRequests holds it
	for name, want := range examples {
		t.Run(name, func(t *testing.T) {
			make, ok := golden[name]
			if !ok {
				t.Fatal("golden does not say how this example comes about")
			}
			got := make(newAPI(t))
			if diff := cmp.Diff(want.body, decode(t, []byte(got.body))); diff != "" {
				t.Errorf("-openapi.yaml +got:\n%s", diff)
			}
			if want.status != "" && want.status != fmt.Sprint(got.status) {
				t.Errorf("status %d, want %s", got.status, want.status)
			}
		})
	}
	for name := range golden {
		if _, ok := examples[name]; !ok {
			t.Errorf("openapi.yaml has no example %q", name)
		}
	}
}

type example struct {
	status string // empty for a shared response
	body   any
}

// readExamples returns every example of a response in openapi.yaml by
// operation, status and name.
func readExamples(t *testing.T) map[string]example {
	doc := describe(t)
	examples := map[string]example{}
	add := func(name, status string, response any) {
		for example, v := range object(dig(response, "content", "application/json", "examples")) {
			if ref, ok := object(v)["$ref"].(string); ok {
				v = dig(doc, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
			}
			examples[name+" "+example] = exampleOf(t, status, object(v)["value"])
		}
	}
	for _, op := range operations(doc) {
		for status, response := range object(op["responses"]) {
			add(fmt.Sprint(op["operationId"], " ", status), status, response)
		}
	}
	for name, response := range object(dig(doc, "components", "responses")) {
		add("responses."+name, "", response)
	}
	return examples
}

func exampleOf(t *testing.T, status string, value any) example {
	b, err := json.Marshal(value)
	must(t, err)
	return example{status, decode(t, b)}
}

func decode(t *testing.T, b []byte) any {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v in %s", err, b)
	}
	return v
}

// describe returns openapi.yaml.
func describe(t *testing.T) any {
	var doc any
	must(t, yaml.Unmarshal(httpapi.Description, &doc))
	return doc
}

// operations returns every operation of every path, sorted by id, with its
// method and path added.
func operations(doc any) []map[string]any {
	var ops []map[string]any
	for path, item := range object(dig(doc, "paths")) {
		for method, op := range object(item) {
			if method == "parameters" {
				continue
			}
			op := maps.Clone(object(op))
			op["method"], op["path"] = strings.ToUpper(method), path
			ops = append(ops, op)
		}
	}
	slices.SortFunc(ops, func(a, b map[string]any) int {
		return strings.Compare(fmt.Sprint(a["operationId"]), fmt.Sprint(b["operationId"]))
	})
	return ops
}

func dig(v any, path ...string) any {
	for _, name := range path {
		v = object(v)[name]
	}
	return v
}

func object(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}
