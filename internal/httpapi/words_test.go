package httpapi_test

import (
	"encoding/json"
	"fmt"
	"remit/internal/store"
	"slices"
	"strings"
	"testing"
)

// gatewayCodes are in answers of API Gateway only.
var gatewayCodes = []string{"too_many_requests"}

// TestEveryCodeHasAnExample: each code of openapi.yaml is the body of an
// example, which TestExamples makes come about.
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

// TestEveryTypeCanBeTold: each type of a 422 in openapi.yaml comes about.
func TestEveryTypeCanBeTold(t *testing.T) {
	pay := func(fields string) func(*api) answered {
		return func(a *api) answered { return a.post("/send-payment", "{"+fields+"}") }
	}
	list := func(query string) func(*api) answered {
		return func(a *api) answered { return a.get("/transactions?" + query) }
	}
	create := func(name string) func(*api) answered {
		return func(a *api) answered { return a.post("/create-api-key", `{"merchant_name":`+name+`}`) }
	}
	hook := func(fields string) func(*api) answered {
		return func(a *api) answered { return a.post("/webhooks", "{"+fields+"}") }
	}
	rows := map[string]func(*api) answered{
		"missing":            pay(``),
		"json_invalid":       pay(`,`),
		"object_type":        pay(`"metadata":[]`),
		"array_type":         hook(`"event_types":{}`),
		"string_type":        pay(`"to":1`),
		"number_type":        pay(`"amount":"1"`),
		"string_too_short":   pay(`"reference":""`),
		"string_too_long":    pay(`"reference":"` + strings.Repeat("x", 129) + `"`),
		"blank":              create(`" "`),
		"control_character":  create(`"\u0000"`),
		"number_too_long":    pay(`"amount":1e9999`),
		"not_integral":       pay(`"amount":1.5`),
		"not_positive":       pay(`"amount":0`),
		"too_large":          pay(`"amount":1e78`),
		"too_many":           pay(`"metadata":{` + names(21) + `}`),
		"metadata_name":      pay(`"metadata":{"":""}`),
		"metadata_value":     pay(`"metadata":{"k":1}`),
		"address_invalid":    pay(`"to":"x"`),
		"address_checksum":   pay(`"to":"0x5AAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"`),
		"recipient_refused":  pay(`"to":"0x0000000000000000000000000000000000000000"`),
		"recipient_mismatch": pay(`"to":"` + alice + `","wallet_address":"0x1111111111111111111111111111111111111111"`),
		"idempotency_key_reused": func(a *api) answered {
			a.post("/send-payment", goodBody, "Idempotency-Key: k")
			return a.post("/send-payment", `{"to":"`+alice+`","amount":2}`, "Idempotency-Key: k")
		},
		"idempotency_key_invalid": list("idempotency_key="),
		"content_type":            func(a *api) answered { return a.post("/webhooks", "{}", "Content-Type: x/y") },
		"content_encoding":        func(a *api) answered { return a.post("/webhooks", "{}", "Content-Encoding: br") },
		"url_refused":             hook(`"url":"ftp://x"`),
		"enum":                    list("status=x"),
		"integer_range":           list("limit=0"),
		"datetime_invalid":        list("created_after=now"),
		"encoding_invalid":        list("status=%ff"),
		"repeated":                list("limit=1&limit=2"),
		"cursor_invalid":          list("cursor=x"),
		"cursor_mismatch": func(a *api) answered {
			a.payTimes(1, 2)
			return a.get("/transactions?status=failed&cursor=" + *a.list("limit=1").NextCursor)
		},
	}
	for _, kind := range enum(t, "InvalidItem", "type") {
		t.Run(kind, func(t *testing.T) {
			send, ok := rows[kind]
			if !ok {
				t.Fatal("no row says how this type comes about")
			}
			send(newAPI(t)).want(t, 422, `"type":"`+kind+`"`)
		})
		delete(rows, kind)
	}
	for kind := range rows {
		t.Errorf("openapi.yaml does not list %s", kind)
	}
}

// names returns n pairs of metadata.
func names(n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf(`"k%d":""`, i))
	}
	return strings.Join(list, ",")
}

// TestItemsHaveThreeParts: an item of a 422 has exactly type, loc and msg.
func TestItemsHaveThreeParts(t *testing.T) {
	got := newAPI(t).post("/send-payment", `{}`)
	var body struct {
		Detail []map[string]any `json:"detail"`
	}
	must(t, json.Unmarshal([]byte(got.body), &body))
	for _, item := range body.Detail {
		if len(item) != 3 || item["type"] == nil || item["loc"] == nil || item["msg"] == nil {
			t.Errorf("item %v", item)
		}
	}
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
	c, err := contract()
	must(t, err)
	if err := c.CheckEvent(p[0].Event.Body); err != nil {
		t.Error(err)
	}
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
