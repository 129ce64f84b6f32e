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
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/remit-payouts/remit/e2e/localaws"
	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/deployment/chains"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/tabletest"
)

// TestEvents hands every sample event to the bootstrap that is deployed for it, under its role, and holds the answers
// of the API against openapi.yaml. Each function has an event that it accepts and one that it refuses.
func TestEvents(t *testing.T) {
	s := start(t)
	s.seed(t)
	hash := regexp.MustCompile(`0x[0-9a-f]{64}`)
	var paid []byte // the hash of the payment that send-payment makes
	seen := map[string]bool{}
	files := must.Get(filepath.Glob(root + "/events/*.json"))(t)
	tabletest.Run(t, nil, func(t *testing.T, c tabletest.Case) {
		seen[fmt.Sprint(s.function(t, c.Name), strings.Contains(c.Name+"-", "-bad-"))] = true
		files = slices.DeleteFunc(files, func(path string) bool { return filepath.Base(path) == c.Name+".json" })
		event := sample(t, c.Name)
		if paid != nil { // the sample names a payment of another stack
			event = hash.ReplaceAll(event, paid)
		}
		got := s.invoke(t, s.function(t, c.Name), event)
		if status := must.Get(strconv.Atoi(c.In[0]))(t); status != 0 {
			got = s.response(t, event, got, status)
		}
		if !bytes.Contains(got, []byte(c.Want)) {
			t.Errorf("answered %s, want %s in it", got, c.Want)
		}
		if c.Name == "send-payment" {
			paid = hash.Find(got)
		}
	})
	if len(files) > 0 {
		t.Errorf("testdata/TestEvents.txt lacks %v", files)
	}
	for logical := range s.Resources {
		if name, ok := strings.CutSuffix(logical, "Function"); ok && (!seen[name+"false"] || !seen[name+"true"]) {
			t.Errorf("events/ lacks an event that %s accepts, or one that it refuses", logical)
		}
	}
}

// TestEventBus: the event of a payment arrives at a queue behind the operator's bus, with the bytes of the webhook.
func TestEventBus(t *testing.T) {
	s := start(t)
	m, queues := newMerchant(t, s), sqs.NewFromConfig(s.Administrator())
	url, got := receive(t, 0)
	hook := m.call("POST", "/webhooks", map[string]any{"url": url}).want(t, 201)
	hash := m.call("POST", "/send-payment", map[string]any{"to": recipient, "amount": 11}).want(t, 201).get("tx_hash")
	var webhook delivery
	until(t, "the webhook", func() bool {
		select {
		case webhook = <-got:
			return strings.Contains(string(webhook.body), hash) && strings.Contains(string(webhook.body), "payment.confirmed")
		default:
			return false
		}
	})
	queue := must.Get(queues.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String(localaws.EventQueue)}))(t).QueueUrl
	until(t, "the event at the queue", func() bool {
		for _, message := range must.Get(queues.ReceiveMessage(t.Context(),
			&sqs.ReceiveMessageInput{QueueUrl: queue, MaxNumberOfMessages: 10}))(t).Messages {
			var event struct {
				Source, Kind string
				Detail       any
			}
			must.OK(t, json.Unmarshal(bytes.Replace([]byte(*message.Body), []byte(`"detail-type"`), []byte(`"kind"`), 1), &event))
			var posted any
			must.OK(t, json.Unmarshal(webhook.body, &posted))
			if event.Source == "remit" && event.Kind == "payment.confirmed" && reflect.DeepEqual(event.Detail, posted) {
				return true
			}
		}
		return false
	})
	m.call("POST", "/webhooks/"+hook.get("id")+"/delete", nil).want(t, 200)
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
	must.OK(t, dynamo.NewAPIKeys(db, s.Outputs["ApiKeysTableName"]).Create(t.Context(),
		apikey.Key{Hash: key.Hash(), ID: key.ID(), MerchantID: sampleMerchant, MerchantName: "Corner Shop",
			Mode: apikey.Test, Prefix: key.Prefix(), Last4: key.Last4(), CreatedAt: now, Grant: apikey.Full()}))
	secret := webhook.MintSecret(rand.Reader)
	url, _ := receive(t, 0)
	endpoint := webhook.Endpoint{Owner: webhook.Owner{Merchant: sampleMerchant, Mode: "test"}, ID: sampleEndpoint,
		URL: url, Status: webhook.Enabled, Secret: secret, CreatedAt: now, EnabledAt: now, Version: 1}
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

var wordStart = regexp.MustCompile(`([a-z])([A-Z])`)

// function returns the logical name, without "Function", of the function that a
// sample event is for: the longest whose own name begins the event's.
func (s *stack) function(t *testing.T, event string) string {
	t.Helper()
	found := ""
	for logical := range s.Resources {
		name, ok := strings.CutSuffix(logical, "Function")
		kebab := strings.ToLower(wordStart.ReplaceAllString(name, "$1-$2"))
		if ok && strings.HasPrefix(event, kebab) && len(name) > len(found) {
			found = name
		}
	}
	if found == "" {
		t.Fatalf("%s.json belongs to no function", event)
	}
	return found
}

// invoke hands a function an event and returns its answer as compact JSON.
func (s *stack) invoke(t *testing.T, function string, event []byte) []byte {
	t.Helper()
	name := s.Resources[function+"Function"]
	in := &lambda.InvokeInput{FunctionName: &name, Payload: event}
	out := must.Get(lambda.NewFromConfig(s.Administrator()).Invoke(t.Context(), in))(t)
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
	described(t, in.HTTPMethod, in.Path, &http.Response{StatusCode: out.StatusCode,
		Header: out.MultiValueHeaders, Body: io.NopCloser(strings.NewReader(out.Body))})
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
		for _, route := range []string{"GET /balance/" + recipient, "POST /send-payment", "GET /transaction/0x12",
			"GET /api-keys", "POST /webhooks"} {
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
	next.key = m.call("POST", "/api-keys/"+id+"/rotate",
		map[string]int{"expires_in_seconds": int(overlap.Seconds())}).want(t, 201).get("api_key")
	return next
}

// TestVerifyAWS runs the parts of tools/verify-aws that need only a stack, with the key of a wallet that has paid.
// The local AWS fills dynamodb:LeadingKeys.
func TestVerifyAWS(t *testing.T) {
	o := newOperator(t)
	s, file := o.s, filepath.Join(t.TempDir(), "wallet")
	owner := crypto.Keccak256Hash([]byte("remit devnet/owner")) // of the test token, which it has deployed
	must.OK(t, os.WriteFile(file, []byte(owner.Hex()), 0o600))
	cmd := exec.CommandContext(t.Context(), root+"/tools/verify-aws", "leading", "answers", "adopt")
	tools := must.Get(filepath.Abs(root + "/.cache/awscli/bin"))(t)
	cmd.Env = append(append(os.Environ(), s.Environment()...), "URL="+s.URL(""), "STACK="+localaws.StackName, "WALLET="+file,
		"NODES="+s.Chain.URL(), "REMIT="+must.Get(remit())(t), "SSL_CERT_FILE="+s.Bundle, "CURL_CA_BUNDLE="+s.Bundle,
		"PATH="+tools+":"+os.Getenv("PATH"))
	var out []byte
	ended := make(chan error, 1)
	go func() {
		var err error
		out, err = cmd.CombinedOutput()
		ended <- err
	}()
	until(t, "tools/verify-aws", func() bool {
		s.invoke(t, "CheckReceipts", sample(t, "check-receipts"))
		select {
		case err := <-ended:
			if err != nil || !strings.Contains(string(out), "verified: leading answers adopt") || strings.Count(string(out), "ok   ") != 9 {
				t.Errorf("%v:\n%s", err, out)
			}
			return true
		default:
			return false
		}
	})
	newMerchant(t, s).paid("adopted", 5)
	o.retireEmpty()
	plan, err := exec.CommandContext(t.Context(), root+"/tools/verify-aws", "--explain").Output()
	if err != nil || !strings.Contains(string(plan), "Costs ") {
		t.Errorf("%v:\n%s", err, plan)
	}
}

// TestRealMoneyIsClosed: CloudFormation, by the template's Rules, refuses an open stack with real money, in the words
// of package chains, by which functions refuse to start.
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
