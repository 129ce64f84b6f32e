package httpapi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"

	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
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

// pay sends the example's payment.
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

// first returns the first payment.
func (a *api) first() payment.Payment {
	a.Helper()
	hash := must.Get(chain.ParseHash(exampleHash))(a)
	return must.Get(a.payments.PaymentByHash(a.Context(), hash))(a)
}

// keyID returns the id of a's key.
func (a *api) keyID() string {
	list, err := a.keys.List(a.Context(), a.merchant)
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

// TestExamples makes every example of openapi.yaml come about: they are the golden bodies.
func TestExamples(t *testing.T) {
	examples := readExamples(t)
	delete(examples, "responses.MalformedRequest request_malformed") // only API Gateway answers it
	tabletest.Run(t, words, func(t *testing.T, c tabletest.Case) {
		want, ok := examples[c.Name]
		if !ok {
			t.Fatal("openapi.yaml has no such example")
		}
		delete(examples, c.Name)
		got := newAPI(t).play(c.In...)
		if diff := cmp.Diff(want.body, decode(t, []byte(got.body))); diff != "" {
			t.Errorf("-openapi.yaml +got:\n%s", diff)
		}
		if got.outcome(t, c.Want); want.status != "" && want.status != c.Want {
			t.Errorf("openapi.yaml has it under %s", want.status)
		}
	})
	for name := range examples {
		t.Errorf("no case says how the example %q comes about", name)
	}
}

type example struct {
	status string // empty for a shared response
	body   any
}

// readExamples returns every example of a response in openapi.yaml by operation, status and name.
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
	b := must.Get(json.Marshal(value))(t)
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

func object(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

// gatewayCodes are in answers of API Gateway only.
var gatewayCodes = []string{"too_many_requests"}

// TestEveryCodeHasAnExample: each code of openapi.yaml is the body of an example, which TestExamples makes come about.
func TestEveryCodeHasAnExample(t *testing.T) {
	told := map[string]bool{}
	for _, e := range readExamples(t) {
		told[fmt.Sprint(dig(e.body, "code"))] = true
	}
	for _, code := range enum(t, "Problem", "code") {
		if !told[code] && !slices.Contains(gatewayCodes, code) {
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
