package httpapi_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/proof/must"
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
