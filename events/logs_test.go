package events_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"remit/internal/boot/boottest"
)

const (
	// perPayment is what a payment may log over its whole life, in bytes: at
	// $0.50 for a gigabyte, a dollar for a million payments.
	perPayment = 2000

	// accessLine is about the length of API Gateway's own line for the POST, of
	// the format that template.yaml gives it.
	accessLine = 430

	payments = 10
)

// TestAPaymentsLog follows payments from request to webhook and reads what the
// functions printed.
func TestAPaymentsLog(t *testing.T) {
	s := start(t)
	s.seed(t)
	functions := []string{"send-payment", "check-receipts", "deliver-webhook"}
	before := map[string]int{}
	for _, name := range functions {
		before[name] = len(s.function(t, name).log.String())
	}
	for i := range payments {
		event := bytes.ReplaceAll(read(t, "send-payment"), []byte("inv-2041"), fmt.Appendf(nil, "log-%d-%d", i, time.Now().UnixNano()))
		if a := s.invoke(t, "send-payment", event); !bytes.Contains(a.Payload, []byte(`"statusCode":201`)) {
			t.Fatalf("answered %s", a.Payload)
		}
	}
	queue := sqs.NewFromConfig(s.client())
	at := s.environment["DeliverWebhookFunction"]["WEBHOOK_QUEUE_URL"]
	delivered := 0
	for deadline := time.Now().Add(time.Minute); delivered < payments; {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d payments were announced", delivered, payments)
		}
		if a := s.invoke(t, "check-receipts", read(t, "check-receipts")); a.Failed {
			t.Fatalf("check-receipts failed: %s", a.Payload)
		}
		got, err := queue.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &at, MaxNumberOfMessages: 10, WaitTimeSeconds: 1})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range got.Messages {
			if _, err := queue.DeleteMessage(t.Context(), &sqs.DeleteMessageInput{QueueUrl: &at, ReceiptHandle: m.ReceiptHandle}); err != nil {
				t.Fatal(err)
			}
		}
		for batch := range slices.Chunk(got.Messages, 10) {
			var records []map[string]any
			for _, m := range batch {
				records = append(records, map[string]any{"messageId": *m.MessageId, "body": *m.Body, "eventSource": "aws:sqs"})
			}
			event, _ := json.Marshal(map[string]any{"Records": records})
			if a := s.invoke(t, "deliver-webhook", event); !bytes.Contains(a.Payload, []byte(`[]`)) {
				t.Fatalf("deliver-webhook answered %s\n%s", a.Payload, s.function(t, "deliver-webhook").log)
			}
			delivered += len(batch)
		}
	}
	total := payments * accessLine
	for _, name := range functions {
		text := s.function(t, name).log.String()[before[name]:]
		t.Logf("%s printed %d bytes for %d payments", name, len(text), payments)
		total += len(text)
		checkLines(t, name, text)
	}
	t.Logf("%d bytes a payment, with %d of API Gateway's", total/payments, accessLine)
	if total/payments > perPayment {
		t.Errorf("a payment logs %d bytes over its whole life, more than %d", total/payments, perPayment)
	}
}

// checkLines: every line is JSON, a metric or one that leads back to the
// invocation, and one that is about a payment to its merchant too.
func checkLines(t *testing.T, name, text string) {
	t.Helper()
	committed := 0
	for line := range strings.Lines(text) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Errorf("%s printed a line that is not JSON: %s", name, line)
			continue
		}
		if fields["_aws"] != nil {
			continue
		}
		want := []string{"timestamp", "level", "message", "requestId"}
		if m := fields["message"]; m == "payment committed" || m == "payment settled" {
			committed++
			want = append(want, "payment", "merchant")
		}
		for _, field := range want {
			if text, _ := fields[field].(string); text == "" {
				t.Errorf("%s printed a line without %s: %s", name, field, line)
			}
		}
	}
	if name != "deliver-webhook" && committed == 0 {
		t.Errorf("%s says of no payment what became of it", name)
	}
}

// TestNoSecretIsLogged has functions handle secrets, well and badly, and looks
// for them in all they printed.
func TestNoSecretIsLogged(t *testing.T) {
	s := start(t)
	endpoint := s.seed(t)
	const provider = "2f6c1e0providerkey9d8"
	vault := secretsmanager.NewFromConfig(s.client())
	_, err := vault.CreateSecret(t.Context(), &secretsmanager.CreateSecretInput{
		Name: aws.String("DeadNode"), SecretString: aws.String(`{"urls":["http://127.0.0.1:1/v3/` + provider + `"]}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	var secrets []string
	for _, event := range []string{"create-api-key", "rotate-api-key", "rotate-webhook-secret", "create-webhook", "test-webhook", "send-payment"} {
		a := s.invoke(t, owner(t, event), read(t, event))
		_, _, body := exchange(t, read(t, event), a)
		var shown struct {
			Key    string `json:"api_key"`
			Secret string `json:"secret"`
		}
		if err := json.Unmarshal([]byte(body), &shown); err != nil {
			t.Fatal(err)
		}
		secrets = append(secrets, shown.Key, shown.Secret)
	}
	s.invoke(t, "authorizer", read(t, "authorizer"))
	s.invoke(t, "authorizer", read(t, "authorizer-bad"))
	logs := &logged{}
	for _, broken := range []struct {
		event string
		env   map[string]string
	}{
		{"authorizer", map[string]string{"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}},
		{"create-api-key", map[string]string{"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}},
		{"rotate-webhook-secret", map[string]string{"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}},
		{"get-balance", map[string]string{"RPC_SECRET": "DeadNode"}},
		{"send-payment", map[string]string{"RPC_SECRET": "DeadNode"}},
		{"check-receipts", map[string]string{"RPC_SECRET": "DeadNode"}},
		{"send-payment", map[string]string{"WALLET_SECRET": "DeadNode"}},
		{"get-balance", map[string]string{"RPC_SECRET": "WalletSecret"}},
	} {
		s.run(t, broken.event, broken.env, logs)
	}
	if !strings.Contains(logs.String(), `"level":"ERROR"`) {
		t.Error("what was broken logged no error")
	}

	stored, err := vault.GetSecretValue(t.Context(), &secretsmanager.GetSecretValueInput{SecretId: aws.String("WalletSecret")})
	if err != nil {
		t.Fatal(err)
	}
	var wallets struct {
		Wallets []struct {
			Key string `json:"private_key"`
		} `json:"wallets"`
	}
	if err := json.Unmarshal([]byte(*stored.SecretString), &wallets); err != nil || len(wallets.Wallets) == 0 {
		t.Fatalf("no wallets: %v", err)
	}
	for _, w := range wallets.Wallets {
		secrets = append(secrets, w.Key)
	}
	secrets = append(secrets, provider, sampleKey, endpoint.Secret.Reveal())
	all := logs.String()
	for _, f := range s.functions {
		all += f.log.String()
	}
	for _, secret := range secrets {
		for _, form := range forms(secret) {
			if strings.Contains(all, form) {
				t.Errorf("the secret that begins with %.12s was printed", secret)
			}
		}
	}
}

// run starts a function of its own in a changed environment for one event.
func (s *services) run(t *testing.T, event string, env map[string]string, logs *logged) {
	t.Helper()
	name := owner(t, event)
	s.function(t, name) // compiled
	changed := map[string]string{}
	for _, from := range []map[string]string{s.environment[logicalID(name)], env} {
		for k, v := range from {
			changed[k] = v
		}
	}
	f, err := boottest.Start(context.WithoutCancel(t.Context()), boottest.Config{
		Bootstrap: filepath.Join(s.bin, name, "bootstrap"), Env: changed, Output: logs, Timeout: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Stop()
	if _, err := f.Invoke(t.Context(), read(t, event)); err != nil {
		t.Error(err)
	}
}

// forms are the ways in which a secret may be printed.
func forms(secret string) []string {
	if secret == "" {
		return nil
	}
	bare := strings.TrimPrefix(strings.TrimPrefix(secret, "0x"), "whsec_")
	all := []string{bare, strings.ToUpper(bare), hex.EncodeToString([]byte(secret)), base64.StdEncoding.EncodeToString([]byte(secret)), url.QueryEscape(secret)}
	if raw, err := hex.DecodeString(bare); err == nil {
		all = append(all, base64.StdEncoding.EncodeToString(raw), strings.Trim(fmt.Sprintf("%d", raw), "[]"))
	}
	if raw, err := base64.StdEncoding.DecodeString(bare); err == nil {
		all = append(all, hex.EncodeToString(raw), strings.Trim(fmt.Sprintf("%d", raw), "[]"))
	}
	return all
}
