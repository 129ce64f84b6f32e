package e2e_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/deployment/chains"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// answers lists every file of events/ in an order in which each merchant, key and endpoint still
// exists: events that end one come after the events that need it. An event of API Gateway is
// answered with a status and, in the body, part; any other event with part alone.
var answers = []struct {
	event  string
	status int
	part   string
}{
	{"authorizer", 0, `"Effect":"Allow"`},
	{"authorizer-bad", 0, `"Effect":"Deny"`},
	{"send-payment", 201, `"tx_hash":"0x`},
	{"send-payment-bad", 422, `["body","wallet_address"]`},
	{"send-payments", 201, `"payments":[{"wallet_address":"0x1111`},
	{"send-payments-bad", 422, `["body","payments",1,"wallet_address"]`},
	{"get-transaction", 200, `"status":"`},
	{"get-transaction-bad", 404, `"transaction_not_found"`},
	{"list-transactions", 200, `"has_more":false`},
	{"list-transactions-bad", 422, `["query","limit"]`},
	{"get-balance", 200, `"token":"`},
	{"get-balance-bad", 422, `["path","address"]`},
	{"check-receipts", 0, `null`},
	{"check-receipts-hint", 0, `null`},
	{"check-receipts-bad", 0, `null`}, // check-receipts does one thing, on any event
	{"refill-wallets", 0, `null`},
	{"refill-wallets-bad", 0, `null`}, // neither
	{"create-proposal", 201, `"status":"awaiting_approval"`},
	{"create-proposal-bad", 422, `["body","approval"]`},
	{"release-proposals", 0, `null`},
	{"release-proposals-bad", 0, `null`}, // it does one thing too
	{"list-deliveries", 200, `"evt_`},
	{"list-deliveries-bad", 401, invalidKey},
	{"resend-delivery", 200, `"status":"pending"`},
	{"resend-delivery-bad", 401, invalidKey},
	{"deliver-webhook", 0, `{"batchItemFailures":[]}`},
	{"deliver-webhook-bad", 0, `{"itemIdentifier":"059f36b4-87a3-44ab-83d2-661975000000"}`},
	{"test-webhook", 200, `"status_code":200`},
	{"test-webhook-bad", 422, `"body"`},
	{"create-webhook", 201, `"secret":"whsec_`},
	{"create-webhook-bad", 422, `["body","url"]`},
	{"list-webhooks", 200, `"we_0123456789abcdef01234567"`},
	{"list-webhooks-bad", 401, invalidKey},
	{"rotate-webhook-secret", 200, `"secret":"whsec_`},
	{"rotate-webhook-secret-bad", 422, `["body","expires_in_seconds"]`},
	{"update-webhook", 200, `"status":"disabled"`},
	{"update-webhook-bad", 422, `["body","status"]`},
	{"delete-webhook", 200, `"we_0123456789abcdef01234567"`},
	{"delete-webhook-bad", 422, `"json_invalid"`},
	{"create-api-key", 201, `"api_key":"remit_test_`},
	{"create-api-key-operator", 201, `"api_key":"remit_test_`},
	{"create-api-key-bad", 422, `["body","merchant_name"]`},
	{"list-api-keys", 200, `"key_0aB1cD2eF3gH"`},
	{"list-api-keys-bad", 401, invalidKey},
	{"issue-api-key", 201, `"recipients":"book"`},
	{"issue-api-key-bad", 422, `["body","scopes"]`},
	{"create-recipient", 201, `"label":"Alice"`},
	{"create-recipient-bad", 422, `["body","address"]`},
	{"list-recipients", 200, `"has_more":false`},
	{"list-recipients-bad", 401, invalidKey},
	{"delete-recipient", 200, `"deleted":true`},
	{"delete-recipient-bad", 404, `"recipient_not_found"`},
	{"rotate-api-key", 201, `"api_key":"remit_test_`},
	{"rotate-api-key-bad", 422, `["body","expires_in_seconds"]`},
	{"revoke-api-key-bad", 404, `"api_key_not_found"`},
	{"revoke-api-key", 200, `"revoked_at":"`},
}

// TestEvents hands every sample event to the bootstrap that is deployed for it, under its role, and holds the answers
// of the API against openapi.yaml. Each function has an event that it accepts and one that it refuses.
func TestEvents(t *testing.T) {
	s := start(t)
	s.seed(t)
	hash := regexp.MustCompile(`0x[0-9a-f]{64}`)
	var paid []byte // the hash of the payment that send-payment makes
	seen := map[string]bool{}
	for _, want := range answers {
		seen[fmt.Sprint(s.function(t, want.event), strings.Contains(want.event+"-", "-bad-"))] = true
		t.Run(want.event, func(t *testing.T) {
			event := sample(t, want.event)
			if paid != nil { // the sample names a payment of another stack
				event = hash.ReplaceAll(event, paid)
			}
			got := s.invoke(t, s.function(t, want.event), event)
			if want.status != 0 {
				got = s.response(t, event, got, want.status)
			}
			if !bytes.Contains(got, []byte(want.part)) {
				t.Errorf("answered %s, want %s in it", got, want.part)
			}
			if want.event == "send-payment" {
				paid = hash.Find(got)
			}
		})
	}
	files, err := filepath.Glob(root + "/events/*.json")
	if err != nil || len(files) != len(answers) {
		t.Errorf("%d events are listed, events/ has %d: %v", len(answers), len(files), err)
	}
	for logical := range s.Resources {
		if name, ok := strings.CutSuffix(logical, "Function"); ok && (!seen[name+"false"] || !seen[name+"true"]) {
			t.Errorf("events/ lacks an event that %s accepts, or one that it refuses", logical)
		}
	}
}

// The key and the endpoint that events name, and the endpoint's owner.
const (
	sampleKey      = "remit_test_0aB1cD2eF3gH_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefg1K7XZ5"
	sampleMerchant = "mer_0123456789abcdef"
	sampleEndpoint = "we_0123456789abcdef01234567"
)

// seed stores the records that events name: a merchant's key, an endpoint, deliveries to it.
func (s *stack) seed(t *testing.T) {
	t.Helper()
	db, now := dynamodb.NewFromConfig(s.Administrator()), time.Now().UTC().Truncate(time.Millisecond)
	key := must.Get(apikey.Parse(sampleKey))(t)
	must.OK(t, dynamo.NewAPIKeys(db, s.Outputs["ApiKeysTableName"]).Create(t.Context(), apikey.Key{
		Hash: key.Hash(), ID: key.ID(), MerchantID: sampleMerchant, MerchantName: "Corner Shop", Mode: apikey.Test,
		Prefix: key.Prefix(), Last4: key.Last4(), CreatedAt: now, Grant: apikey.Full(),
	}))
	secret := must.Get(webhook.MintSecret(rand.Reader))(t)
	url, _ := receive(t, 0)
	endpoint := webhook.Endpoint{
		Owner: webhook.Owner{Merchant: sampleMerchant, Mode: "test"}, ID: sampleEndpoint, URL: url,
		Status: webhook.Enabled, Secret: secret, CreatedAt: now, EnabledAt: now, Version: 1,
	}
	hooks := dynamo.NewWebhooks(db, s.Outputs["WebhooksTableName"])
	must.OK(t, hooks.AddEndpoint(t.Context(), endpoint, webhook.EndpointLimit))
	for _, id := range []string{"dlv_0123456789abcdef0123456789abcdef", "dlv_01234567", webhook.FirstID(now)} {
		must.OK(t, hooks.AddDelivery(t.Context(), webhook.Delivery{
			Ref:    webhook.Ref{Owner: endpoint.Owner, Endpoint: endpoint.ID, Delivery: id},
			Event:  webhook.Event{ID: "evt_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", Type: webhook.PaymentConfirmed, At: now, Body: []byte(`{}`)},
			Status: webhook.Pending, NextAttemptAt: now, CreatedAt: now,
		}))
	}
}

func sample(t *testing.T, event string) []byte {
	t.Helper()
	return must.Get(os.ReadFile(filepath.Join(root, "events", event+".json")))(t)
}

// function returns the logical name, without "Function", of the function that a
// sample event is for: the longest whose own name begins the event's.
func (s *stack) function(t *testing.T, event string) string {
	t.Helper()
	found := ""
	for logical := range s.Resources {
		name, ok := strings.CutSuffix(logical, "Function")
		if ok && strings.HasPrefix(event, kebab(name)) && len(name) > len(found) {
			found = name
		}
	}
	if found == "" {
		t.Fatalf("%s.json belongs to no function", event)
	}
	return found
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

// invoke hands a function an event and returns its answer as compact JSON.
func (s *stack) invoke(t *testing.T, function string, event []byte) []byte {
	t.Helper()
	name := s.Resources[function+"Function"]
	out, err := lambda.NewFromConfig(s.Administrator()).Invoke(t.Context(), &lambda.InvokeInput{FunctionName: &name, Payload: event})
	must.OK(t, err)
	if out.FunctionError != nil {
		t.Errorf("%s failed: %s", function, out.Payload)
	}
	if _, again := s.shown.LoadOrStore(t.Name()+function, true); !again {
		t.Cleanup(func() {
			if t.Failed() {
				lines := s.logged(t, function)
				t.Logf("%s logged last:\n%s", function, strings.Join(lines[max(0, len(lines)-100):], "\n"))
			}
		})
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, out.Payload); err != nil {
		t.Errorf("%s answered %s: %v", function, out.Payload, err)
	}
	return compact.Bytes()
}

// response holds the answer to an event of API Gateway against openapi.yaml and a status, and returns its body.
func (s *stack) response(t *testing.T, event, got []byte, status int) []byte {
	t.Helper()
	var in struct{ HTTPMethod, Path string }
	var out struct {
		StatusCode        int
		MultiValueHeaders http.Header
		Body              string
	}
	must.OK(t, json.Unmarshal(event, &in))
	if err := json.Unmarshal(got, &out); err != nil {
		t.Fatalf("answered %s: %v", got, err)
	}
	if out.StatusCode != status {
		t.Errorf("answered %d, want %d", out.StatusCode, status)
	}
	described(t, in.HTTPMethod, in.Path, &http.Response{
		StatusCode: out.StatusCode, Header: out.MultiValueHeaders, Body: io.NopCloser(strings.NewReader(out.Body)),
	})
	return []byte(out.Body)
}

const invalidKey = `{"detail":"Invalid API Key"}`

// TestKeysAtTheGate holds the answers that API Gateway and the authorizer give without a function.
func TestKeysAtTheGate(t *testing.T) {
	s := start(t)
	m := newMerchant(t, s)
	other := newMerchant(t, s)
	// API Gateway remembers a key that was used for a minute. These were not.
	revoked, expired := m.keyOf(map[string]any{}), m.keyOf(map[string]any{})
	m.call("POST", "/api-keys/"+revoked.id()+"/revoke", nil).want(t, 200)
	rotated(t, m, expired.id(), 0)

	for why, key := range map[string]string{
		"no key":                      "",
		"an unknown key":              "remit_test_0aB1cD2eF3gH_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefg0dDPM7",
		"two keys in one":             m.key + ", " + other.key,
		"a key that is revoked":       revoked.key,
		"a key that was rotated away": expired.key,
		"a bearer token":              "Bearer " + m.key,
	} {
		for _, route := range []string{"GET /balance/" + recipient, "POST /send-payment", "GET /transaction/0x12", "GET /api-keys",
			"POST /webhooks"} {
			method, path, _ := strings.Cut(route, " ")
			a := merchant{t: t, s: s, key: key}.call(method, path, nil)
			if a.status != 401 || a.text != invalidKey {
				t.Errorf("%s at %s: %d %q", why, route, a.status, a.text)
			}
		}
	}
}

// id is the key's: it stands in the key.
func (m merchant) id() string { return "key_" + m.key[len("remit_test_"):][:12] }

// keyOf makes a key of m's merchant as body says and returns the merchant with it.
func (m merchant) keyOf(body any) merchant {
	m.t.Helper()
	next := m
	next.key = m.call("POST", "/api-keys", body).want(m.t, 201).get("api_key")
	return next
}

// rotated replaces the key of that id and returns the merchant with the new one.
func rotated(t *testing.T, m merchant, id string, overlap time.Duration) merchant {
	t.Helper()
	next := m
	next.key = m.call("POST", "/api-keys/"+id+"/rotate", map[string]int{"expires_in_seconds": int(overlap.Seconds())}).want(t,
		201).get("api_key")
	return next
}

// TestVerifyAWS runs the parts of tools/verify-aws that need nothing but a stack. The local AWS fills dynamodb:LeadingKeys.
func TestVerifyAWS(t *testing.T) {
	s := start(t)
	m := newMerchant(t, s)
	cmd := exec.CommandContext(t.Context(), root+"/tools/verify-aws", "leading", "answers")
	tools := must.Get(filepath.Abs(root + "/.cache/awscli/bin"))(t)
	cmd.Env = append(append(os.Environ(), s.Environment()...), "URL="+s.URL(""), "KEY="+m.key, "CURL_CA_BUNDLE="+s.Bundle,
		"PATH="+tools+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "verified: leading answers") || strings.Count(string(out), "ok   ") != 7 {
		t.Errorf("%v:\n%s", err, out)
	}
	plan, err := exec.CommandContext(t.Context(), root+"/tools/verify-aws", "--explain").Output()
	if err != nil || !strings.Contains(string(plan), "Costs ") {
		t.Errorf("%v:\n%s", err, plan)
	}
}

// TestRealMoneyIsClosed: CloudFormation, by the template's Rules, refuses an open stack with real money, in the words of
// package chains, by which functions refuse to start.
func TestRealMoneyIsClosed(t *testing.T) {
	s := start(t)
	template := must.Get(os.ReadFile(root + "/template.yaml"))(t)
	parameters, _, _ := strings.Cut(string(template), "\nMappings:")
	body := strings.Replace(parameters, "Transform: AWS::Serverless-2016-10-31\n", "", 1) + "\nResources:\n  Queue: {Type: AWS::SQS::Queue}\n"
	for n, d := range []chains.Deployment{
		{Environment: "prod", Mode: "live", AlarmTopic: "arn:aws:sns:us-east-1:000000000000:alarms"},
		{Environment: "dev", Mode: "test"},
		{Environment: "prod", Mode: "test", AlarmTopic: "arn:aws:sns:us-east-1:000000000000:alarms"},
		{Environment: "prod", Mode: "live"},
		{Environment: "dev", Mode: "live"},
	} {
		in := &cloudformation.CreateStackInput{StackName: aws.String(fmt.Sprint("closed-", n)), TemplateBody: &body}
		for name, value := range map[string]string{"Environment": d.Environment, "Mode": d.Mode, "AlarmTopicArn": d.AlarmTopic} {
			in.Parameters = append(in.Parameters, types.Parameter{ParameterKey: &name, ParameterValue: &value})
		}
		_, err := cloudformation.NewFromConfig(s.Administrator()).CreateStack(t.Context(), in)
		want := d.Open()
		if (err == nil) != (len(want) == 0) || err != nil && !strings.Contains(err.Error(), want[0].Error()) {
			t.Errorf("%+v: CloudFormation said %v, want %v", d, err, want)
		}
	}
}
