package events_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"remit/internal/boot/boottest"
	"remit/internal/httpapi/httpapitest"
)

// answers says what each event is answered with. For an API Gateway event that
// is a status and a part of the body; for the others, only a part of the answer.
var answers = []struct {
	event  string
	status int
	part   string
}{
	{"authorizer", 0, `"Effect":"Allow"`},
	{"authorizer-bad", 0, `"Effect":"Deny"`},
	{"check-receipts", 0, `null`},
	{"check-receipts-hint", 0, `null`},
	{"check-receipts-bad", 0, `null`}, // whatever a hint says, there is one thing to do
	{"create-api-key", 201, `"api_key":"remit_test_`},
	{"create-api-key-operator", 201, `"api_key":"remit_test_`},
	{"create-api-key-bad", 422, `["body","merchant_name"]`},
	{"create-webhook", 201, `"secret":"whsec_`},
	{"create-webhook-bad", 422, `["body","url"]`},
	{"delete-webhook", 200, `"we_0123456789abcdef01234567"`},
	{"delete-webhook-bad", 422, `"json_invalid"`},
	{"deliver-webhook", 0, `{"batchItemFailures":[]}`},
	{"deliver-webhook-bad", 0, `{"itemIdentifier":"059f36b4-87a3-44ab-83d2-661975000000"}`},
	{"get-balance", 200, `"token":"`},
	{"get-balance-bad", 422, `["path","address"]`},
	{"get-transaction", 200, `"status":"`},
	{"get-transaction-bad", 404, `"transaction_not_found"`},
	{"list-api-keys", 200, `"key_0aB1cD2eF3gH"`},
	{"list-api-keys-bad", 401, unauthorized},
	{"list-deliveries", 200, `"evt_`},
	{"list-deliveries-bad", 401, unauthorized},
	{"list-transactions", 200, `"has_more":false`},
	{"list-transactions-bad", 422, `["query","limit"]`},
	{"list-webhooks", 200, `"we_0123456789abcdef01234567"`},
	{"list-webhooks-bad", 401, unauthorized},
	{"resend-delivery", 200, `"status":"pending"`},
	{"resend-delivery-bad", 401, unauthorized},
	{"revoke-api-key", 200, `"revoked_at":"`},
	{"revoke-api-key-bad", 404, `"api_key_not_found"`},
	{"rotate-api-key", 201, `"api_key":"remit_test_`},
	{"rotate-api-key-bad", 422, `["body","expires_in_seconds"]`},
	{"rotate-webhook-secret", 200, `"secret":"whsec_`},
	{"rotate-webhook-secret-bad", 422, `["body","expires_in_seconds"]`},
	{"send-payment", 201, `"tx_hash":"0x`},
	{"send-payment-bad", 422, `["body","wallet_address"]`},
	{"test-webhook", 200, `"status_code":204`},
	{"test-webhook-bad", 422, `"body"`},
	{"update-webhook", 200, `"status":"disabled"`},
	{"update-webhook-bad", 422, `["body","status"]`},
}

const unauthorized = `{"detail":"Invalid API Key"}`

// TestEveryEvent hands each event to its function's program.
func TestEveryEvent(t *testing.T) {
	s := start(t)
	contract, err := httpapitest.NewContract()
	if err != nil {
		t.Fatal(err)
	}
	hash := regexp.MustCompile(`tx_hash\\":\\"(0x[0-9a-f]{64})`)
	paid := hash.FindStringSubmatch(string(s.invoke(t, "send-payment", read(t, "send-payment")).Payload))
	if paid == nil {
		t.Fatalf("no payment was made\n%s", s.function(t, "send-payment").log)
	}
	known := map[string]bool{}
	for _, want := range answers {
		known[want.event] = true
		t.Run(want.event, func(t *testing.T) {
			s.seed(t)
			event := read(t, want.event)
			// The sample names a payment that was made elsewhere.
			event = regexp.MustCompile(`0x[0-9a-f]{64}`).ReplaceAll(event, []byte(paid[1]))
			name := owner(t, want.event)
			a := s.invoke(t, name, event)
			if a.Failed {
				t.Fatalf("the function failed: %s\n%s", a.Payload, s.function(t, name).log)
			}
			if want.status == 0 {
				if !bytes.Contains(a.Payload, []byte(want.part)) {
					t.Errorf("answered %s, want %s in it", a.Payload, want.part)
				}
				return
			}
			request, answer, body := exchange(t, event, a)
			if answer.StatusCode != want.status || !strings.Contains(body, want.part) {
				t.Errorf("answered %d %s, want %d and %s\n%s", answer.StatusCode, body, want.status, want.part, s.function(t, name).log)
			}
			if err := contract.Check(request, answer); err != nil {
				t.Error(err)
			}
		})
	}
	paths, err := filepath.Glob("*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if name := strings.TrimSuffix(path, ".json"); !known[name] {
			t.Errorf("nothing says what %s is answered with", path)
		}
	}
	if len(known) != len(paths) {
		t.Errorf("%d events are listed and %d are here", len(known), len(paths))
	}
}

func read(t *testing.T, event string) []byte {
	t.Helper()
	text, err := os.ReadFile(event + ".json")
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// owner is the function whose event it is: the longest name that begins the
// event's.
func owner(t *testing.T, event string) string {
	t.Helper()
	names, err := boottest.Names(root)
	if err != nil {
		t.Fatal(err)
	}
	found := ""
	for _, name := range names {
		if (event == name || strings.HasPrefix(event, name+"-")) && len(name) > len(found) {
			found = name
		}
	}
	if found == "" {
		t.Fatalf("%s.json belongs to no function", event)
	}
	return found
}

// exchange is what API Gateway makes of an event and its answer.
func exchange(t *testing.T, event []byte, a boottest.Answer) (*http.Request, *http.Response, string) {
	t.Helper()
	var in struct {
		Method  string            `json:"httpMethod"`
		Path    string            `json:"path"`
		Query   map[string]string `json:"queryStringParameters"`
		Headers map[string]string `json:"headers"`
		Body    string            `json:"body"`
	}
	var out struct {
		Status  int                 `json:"statusCode"`
		Headers map[string][]string `json:"multiValueHeaders"`
		Body    string              `json:"body"`
		Encoded bool                `json:"isBase64Encoded"`
	}
	if err := json.Unmarshal(event, &in); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(a.Payload, &out); err != nil || out.Encoded {
		t.Fatalf("answered %s: %v", a.Payload, err)
	}
	query := url.Values{}
	for name, value := range in.Query {
		query.Set(name, value)
	}
	r := httptest.NewRequest(in.Method, in.Path+"?"+query.Encode(), strings.NewReader(in.Body))
	for name, value := range in.Headers {
		r.Header.Set(name, value)
	}
	h := http.Header{}
	for name, values := range out.Headers {
		h[http.CanonicalHeaderKey(name)] = values
	}
	return r, &http.Response{StatusCode: out.Status, Header: h, Body: io.NopCloser(strings.NewReader(out.Body)), Request: r}, out.Body
}
