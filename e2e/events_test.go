package e2e_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/lambda"
)

// expected is what each of events/ gets on a stack that has nothing stored but
// what other tests leave: the status of its answer, or a part of it where the
// function does not answer HTTP.
var expected = map[string]any{
	"authorizer":                `"Effect":"Deny"`, // a well-formed key that nobody was given
	"authorizer-bad":            `"Effect":"Deny"`,
	"check-receipts":            `null`,
	"check-receipts-hint":       `null`,
	"check-receipts-bad":        `null`, // whatever starts it, there is one thing to do
	"create-api-key":            201,
	"create-api-key-bad":        422,
	"create-api-key-operator":   201,
	"create-webhook":            201,
	"create-webhook-bad":        422,
	"delete-webhook":            404,
	"delete-webhook-bad":        422,
	"deliver-webhook":           `"itemIdentifier"`, // names a delivery that this stack does not have
	"deliver-webhook-bad":       `"itemIdentifier"`,
	"get-balance":               200,
	"get-balance-bad":           422,
	"get-transaction":           404,
	"get-transaction-bad":       404,
	"list-api-keys":             200,
	"list-api-keys-bad":         401,
	"list-deliveries":           404,
	"list-deliveries-bad":       401,
	"list-transactions":         200,
	"list-transactions-bad":     422,
	"list-webhooks":             200,
	"list-webhooks-bad":         401,
	"resend-delivery":           404,
	"resend-delivery-bad":       401,
	"revoke-api-key":            404,
	"revoke-api-key-bad":        404,
	"rotate-api-key":            404,
	"rotate-api-key-bad":        422,
	"rotate-webhook-secret":     404,
	"rotate-webhook-secret-bad": 422,
	"send-payment":              201,
	"send-payment-bad":          422,
	"test-webhook":              404,
	"test-webhook-bad":          422,
	"update-webhook":            404,
	"update-webhook-bad":        422,
}

// TestEvents hands every sample event to the binary that is deployed for it.
func TestEvents(t *testing.T) {
	s := start(t)
	files, err := filepath.Glob(root + "/events/*.json")
	if err != nil || len(files) != len(expected) {
		t.Errorf("%d events, %d expectations, %v", len(files), len(expected), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		t.Run(name, func(t *testing.T) {
			event, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			want, ok := expected[name]
			if !ok {
				t.Fatal("nobody said what is to come of it")
			}
			got := s.invoke(t, name, event)
			if part, ok := want.(string); ok {
				if !strings.Contains(got, part) {
					t.Errorf("got %s, want %s", got, part)
				}
				return
			}
			var response struct{ StatusCode int }
			if err := json.Unmarshal([]byte(got), &response); err != nil || response.StatusCode != want {
				t.Errorf("got %s, %v; want %v", got, err, want)
			}
		})
	}
}

// invoke runs the function that a sample event is for: the one with the longest
// name that the event's begins with.
func (s *stack) invoke(t *testing.T, event string, payload []byte) string {
	t.Helper()
	function, matched := "", ""
	for logical, physical := range s.resources {
		id, ok := strings.CutSuffix(logical, "Function")
		if ok && strings.HasPrefix(event, kebab(id)) && len(id) > len(matched) {
			function, matched = physical, id
		}
	}
	out, err := lambda.NewFromConfig(s.administrator()).Invoke(t.Context(), &lambda.InvokeInput{FunctionName: &function, Payload: payload})
	if err != nil {
		t.Fatal(err)
	}
	if out.FunctionError != nil {
		t.Errorf("%s failed: %s", matched, out.Payload)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s logged:\n%s", matched, strings.Join(s.logged(t, matched), "\n"))
		}
	})
	var compact bytes.Buffer
	if err := json.Compact(&compact, out.Payload); err != nil {
		t.Errorf("%s answered %s: %v", matched, out.Payload, err)
	}
	return compact.String()
}

// kebab writes SendPayment as send-payment.
func kebab(s string) string {
	var b strings.Builder
	for i, c := range s {
		if i > 0 && 'A' <= c && c <= 'Z' {
			b.WriteByte('-')
		}
		b.WriteRune(c)
	}
	return strings.ToLower(b.String())
}
