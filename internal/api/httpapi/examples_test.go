package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"

	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/dispatch"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/proposal"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/tabletest"
)

const (
	exampleHash = "0x88df016429689c079f3b2f6ad39fa052532c56795b733da78a91ebe6a713944b"
	exampleHook = "we_000102030405060708090a0b"
	newHook     = `{"url":"https://merchant.example/hooks","event_types":["payment.confirmed","payment.failed"]}`
)

func (a *api) get(path string, headers ...string) answered {
	return a.send("GET", path, "", headers...)
}

func (a *api) post(path, body string, headers ...string) answered {
	return a.send("POST", path, body, headers...)
}

func (a *api) pay() answered {
	return a.post("/send-payment", `{"wallet_address":"`+alice+`","amount":1000000,"reference":"inv-2041","metadata":{"order":"2041"}}`)
}

// confirm ends the first payment well.
func (a *api) confirm() {
	a.end(func(p payment.Payment, r chain.Receipt) (payment.Payment, error) { return p.Confirm(r, a.now) })
}

// fail ends the first payment as reverted by its token contract.
func (a *api) fail() {
	a.end(func(p payment.Payment, r chain.Receipt) (payment.Payment, error) {
		r.Reason = "Pausable: paused"
		return p.Fail(payment.ExecutionReverted, r, a.now)
	})
}

// end ends the first payment four seconds later.
func (a *api) end(end func(payment.Payment, chain.Receipt) (payment.Payment, error)) {
	a.now = a.now.Add(4 * time.Second)
	p := a.first()
	fee := token.Units(61_234_567_890)
	p = must.Get(end(p, chain.Receipt{Tx: p.Attempts[0].Hash, Block: 19241000, Fee: &fee}))(a)
	must.OK(a, a.payments.Finish(a.Context(), p))
}

func (a *api) first() payment.Payment {
	a.Helper()
	hash := must.Get(chain.ParseHash(exampleHash))(a)
	return must.Get(a.payments.PaymentByHash(a.Context(), hash))(a)
}

func (a *api) keyID() string {
	list, err := a.keyStore.List(a.Context(), a.merchant)
	if err != nil || len(list) == 0 {
		a.Fatal(list, err)
	}
	return list[len(list)-1].ID
}

// hooked registers n webhooks; the id of the first is exampleHook.
func (a *api) hooked(n int) *api {
	for range n {
		a.post("/webhooks", newHook).want(a.T, 201)
	}
	return a
}

// TestExamples makes every example of openapi.yaml come about: they are the golden bodies. Those of requests are sent:
// {{sendPayment pending}}.
func TestExamples(t *testing.T) {
	examples, words := readExamples(t), maps.Clone(words)
	delete(examples, "responses.MalformedRequest request_malformed") // only API Gateway answers it
	table := must.Get(os.ReadFile("testdata/TestExamples.txt"))(t)
	for name, e := range examples {
		if words[name] = string(must.Get(json.Marshal(e.body))(t)); bytes.Contains(table, []byte(" {{"+name+"}} ")) {
			delete(examples, name)
		}
	}
	tabletest.Run(t, words, func(t *testing.T, c tabletest.Case) {
		want, ok := examples[c.Name]
		if !ok {
			t.Fatal("openapi.yaml has no such example")
		}
		delete(examples, c.Name)
		got := newAPI(t).play(c.In...)
		if diff := cmp.Diff(want.body, decode(t, []byte(got.body))); diff != "" {
			t.Errorf("%s has another body (-openapi.yaml +got):\n%s", want.line, diff)
		}
		if got.outcome(t, c.Want); want.status != "" && want.status != c.Want {
			t.Errorf("%s has it under %s", want.line, want.status)
		}
	})
	for name, e := range examples {
		t.Errorf("%s: no case says how the example %q comes about", e.line, name)
	}
}

type example struct {
	status string // empty for a request and a shared response
	body   any
	line   string
}

// readExamples returns the examples of openapi.yaml, by operation, a response's status, and name.
func readExamples(t *testing.T) map[string]example {
	doc := describe(t)
	examples := map[string]example{}
	add := func(name, status string, response any, pointer string) {
		for kind, v := range object(dig(response, "content", "application/json", "examples")) {
			at := pointer + "/content/application~1json/examples/" + kind
			if ref, ok := object(v)["$ref"].(string); ok {
				v, at = dig(doc, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...), ref[1:]
			}
			examples[name+" "+kind] = example{status, decode(t, must.Get(json.Marshal(object(v)["value"]))(t)),
				must.Get(contract())(t).Line(at)}
		}
	}
	for _, op := range operations(doc) {
		at := "/paths/" + strings.ReplaceAll(fmt.Sprint(op["path"]), "/", "~1") + "/" + strings.ToLower(fmt.Sprint(op["method"]))
		add(fmt.Sprint(op["operationId"]), "", op["requestBody"], at+"/requestBody")
		for status, response := range object(op["responses"]) {
			add(fmt.Sprint(op["operationId"], " ", status), status, response, at+"/responses/"+status)
		}
	}
	for name, response := range object(dig(doc, "components", "responses")) {
		add("responses."+name, "", response, "/components/responses/"+name)
	}
	return examples
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

func describe(t *testing.T) any {
	var doc any
	must.OK(t, yaml.Unmarshal(httpapi.Description, &doc))
	return doc
}

// operations returns every operation of every path, with its method and path added.
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
	return ops
}

func dig(v any, path ...string) any {
	for _, name := range path {
		v = object(v)[name]
	}
	return v
}

// follow returns the value that v refers to, or v.
func follow(doc, v any) any {
	if ref, ok := object(v)["$ref"].(string); ok {
		return dig(doc, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
	}
	return v
}

func object(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

// TestEveryCodeHasAnExample: openapi.yaml lists each code of problems.go, and has an example of each.
func TestEveryCodeHasAnExample(t *testing.T) {
	told := map[string]bool{}
	for _, e := range readExamples(t) {
		told[fmt.Sprint(dig(e.body, "code"))] = true
	}
	codes := append(enum(t, "Problem", "code"), "not_found", "validation_failed") // of bodies of their own
	for _, word := range regexp.MustCompile(`"[a-z]+(_[a-z]+)+"`).FindAll(must.Get(os.ReadFile("problems.go"))(t), -1) {
		if !slices.Contains(codes, strings.Trim(string(word), `"`)) {
			t.Errorf("Problem in openapi.yaml lacks %s", word)
		}
	}
	for _, code := range codes {
		if !told[code] && code != "too_many_requests" { // which only API Gateway answers
			t.Errorf("no example tells %s", code)
		}
	}
}

func enum(t *testing.T, schema, property string) []string {
	list, ok := dig(describe(t), "components", "schemas", schema, "properties", property, "enum").([]any)
	if !ok {
		t.Fatalf("no enum at %s.%s", schema, property)
	}
	var words []string
	for _, w := range list {
		words = append(words, fmt.Sprint(w))
	}
	return words
}

// TestEventsAreDescribed: the body posted to webhooks is as openapi.yaml says,
// and its data is the payment that the API shows with its previous status.
func TestEventsAreDescribed(t *testing.T) {
	a := newAPI(t)
	a.pay().want(t, 201)
	a.confirm()
	shown := a.get("/transaction/" + exampleHash)
	p, _, err := a.payments.List(t.Context(), store.Filter{Merchant: a.merchant, Mode: "test", Limit: 1})
	if err != nil || len(p) != 1 || p[0].Event == nil {
		t.Fatalf("%v, %v", p, err)
	}
	c := must.Get(contract())(t)
	must.OK(t, c.CheckEvent(p[0].Event.Body))
	data := `"data":` + strings.TrimSuffix(shown.body, "}") + `,"previous_status":"pending"}`
	if !strings.Contains(string(p[0].Event.Body), data) {
		t.Errorf("the event is %s\nwant in it %s", p[0].Event.Body, data)
	}
	for _, bad := range []string{`{}`, strings.Replace(string(p[0].Event.Body), `"confirmed"`, `"done"`, 1)} {
		if c.CheckEvent([]byte(bad)) == nil {
			t.Errorf("CheckEvent takes %s", bad)
		}
	}
}

const maxAmount = "115792089237316195423570985008687907853269984665640564039457584007913129639935" // 2^256-1

// TestAmounts: a JSON number with an integral value above zero, up to 2^256-1.
func TestAmounts(t *testing.T) {
	answers(t, newAPI, `POST /send-payment {"wallet_address":"`+alice+`","amount":%s}`)
}

// TestRecipients: "0x" and 40 hex digits of one case or as EIP-55 has them, of an address that can be paid.
func TestRecipients(t *testing.T) { answers(t, newAPI, `POST /send-payment {%s,"amount":1}`) }

// TestAttachments: reference and metadata. Lengths are code points.
func TestAttachments(t *testing.T) {
	answers(t, newAPI, `POST /send-payment {"to":"`+alice+`","amount":1,%s}`)
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

// TestRequestReachesTheEngine: field by field.
func TestRequestReachesTheEngine(t *testing.T) {
	a := newAPI(t)
	a.post("/send-payment", `{"wallet_address":"`+alice+`","amount":12,"reference":"r","metadata":{"k":"v"}}`,
		"Idempotency-Key: i", "Remit-Not-After: 0").want(t, 201)
	to := must.Get(token.ParseAddress(alice))(t)
	want := payment.Request{Merchant: a.merchant, Mode: "test", IdempotencyKey: "i", To: to, Amount: token.Units(12),
		Reference: "r", Metadata: map[string]string{"k": "v"}, NotAfter: time.Unix(0, 0).UTC()}
	if got := a.payments.got[0]; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("asked for %+v, want %+v", got, want)
	}
}

// TestAssets: requests that name an asset, keys that pay one, and a stack that closes one.
func TestAssets(t *testing.T) { answers(t, newAPI, "%s") }

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

// TestWebhookRefusals: the merchant's answer for each error of package webhook, such as its limit.
func TestWebhookRefusals(t *testing.T) { answers(t, newAPI, "%s") }

// A knowing store has every endpoint, and answers nothing else.
type knowing struct{ webhook.Store }

func (knowing) Endpoint(context.Context, webhook.Owner, string) (webhook.Endpoint, error) {
	return webhook.Endpoint{Status: webhook.Enabled}, nil
}

// TestWhatIsNoIDReadsNothing: an id that no key, webhook or delivery can have is 404 and never read, since a table may
// refuse it for a key (DynamoDB takes 1,024 bytes). The endpoints here have no store, or a knowing one.
func TestWhatIsNoIDReadsNothing(t *testing.T) {
	hooks, keys := &webhook.Registry{Now: time.Now}, &apikey.Registry{Mode: apikey.Test, Now: time.Now}
	log, tester := &webhook.Log{Now: time.Now}, &webhook.Tester{Now: time.Now}
	good, long := "we_"+strings.Repeat("0", 24), strings.Repeat("a", 1100)
	for path, e := range map[string]httpapi.Endpoint{
		"POST /webhooks/%s 404 webhook":                                 httpapi.UpdateWebhook(hooks),
		"POST /webhooks/%s/delete 404 webhook":                          httpapi.DeleteWebhook(hooks),
		"POST /webhooks/%s/rotate-secret 404 webhook":                   httpapi.RotateWebhookSecret(hooks),
		"POST /webhooks/%s/test 404 webhook":                            httpapi.TestWebhook(tester),
		"GET /webhooks/%s/deliveries 404 webhook":                       httpapi.ListDeliveries(log),
		"POST /webhooks/%s/deliveries/dlv_1/resend 404 webhook":         httpapi.ResendDelivery(log),
		"POST /webhooks/" + good + "/deliveries/%s/resend 404 delivery": httpapi.ResendDelivery(&webhook.Log{Store: knowing{}}),
		"POST /api-keys/%s/rotate 404 api_key":                          httpapi.RotateAPIKey(keys, nil),
		"POST /api-keys/%s/revoke 404 api_key":                          httpapi.RevokeAPIKey(keys),
	} {
		part := strings.Fields(path)
		for _, id := range []string{long, "we_" + long, "we_0", good + "0", strings.ToUpper(good),
			"dlv_" + strings.Repeat("0", 31), "key_" + strings.Repeat("0", 13), "key_-23456789012"} {
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

// begun begins the release of the proposal of order-2041, and returns it.
func (a *api) begun() proposal.Proposal {
	a.Helper()
	p := must.Get(a.payments.Proposal(a.Context(), payment.KeyID(a.merchant, "test", "order-2041")))(a)
	offer := payment.New(p.Payment.ID, p.Request(), asset, "base-sepolia", a.now)
	to := p.Begin(offer.AssignedTo(ownWallet, chain.Tx{ChainID: 84532, To: asset.Contract, Data: offer.Call(ownWallet, true).Data}))
	must.OK(a, a.payments.Amend(a.Context(), p, to, store.Guard{}))
	return to
}

func (a *api) released() { must.Get(a.payments.commit(a.Context(), a.begun().Payment))(a) }

// TestProposals holds the routes of proposals to the contract.
func TestProposals(t *testing.T) {
	tabletest.Run(t, words, func(t *testing.T, c tabletest.Case) {
		a := newAPI(t)
		must.OK(t, a.payments.Register(t.Context(), wallet.Registration{State: wallet.Active, Token: asset.Contract,
			ID: wallet.ID{ChainID: 84532, Address: ownWallet}}))
		a.play(c.In...).outcome(t, c.Want)
	})
}

// TestExplain: a refusal of a release is a 400 of a payment, or approval_required; anything else holds only for now.
func TestExplain(t *testing.T) {
	for want, err := range map[string]error{
		"insufficient_funds": dispatch.ErrInsufficient, "daily_limit_exceeded": store.ErrDailyLimit,
		"approval_required":     dispatch.ErrApprovalRequired,
		"recipient_not_allowed": &chain.EntryError{Index: 2, Err: dispatch.ErrOwnWallet},
		"batches_not_enabled":   &dispatch.TooManyError{Fit: 7},
		"similar_payment":       &dispatch.SimilarError{},
	} {
		if got := httpapi.Explain(err); got.Code != want || got.Message == "" ||
			(got.Index != nil) != (want == "recipient_not_allowed") ||
			strings.Contains(got.Message, "Cancel this proposal; for a second") != (want == "similar_payment") {
			t.Errorf("%v is %+v", err, got)
		}
	}
	for _, err := range []error{dispatch.ErrUnavailable, dispatch.ErrTooMany, dispatch.ErrSimilarPending, dispatch.ErrExpired, errBroken,
		errors.Join(dispatch.ErrInProgress, dispatch.ErrInsufficient), dispatch.ErrDuplicate} {
		if got := httpapi.Explain(err); got.Code != "" {
			t.Errorf("%v is %+v", err, got)
		}
	}
}
