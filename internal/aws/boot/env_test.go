package boot_test

import (
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/remit-payouts/remit/internal/aws/boot"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// env is an environment of exactly these variables, on top of those every
// Lambda has.
func env(t *testing.T, vars map[string]string) *boot.Env {
	t.Helper()
	always := map[string]string{"AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "secret",
		"AWS_SESSION_TOKEN": "token"}
	return boot.OpenWith(func(name string) string {
		if v, ok := vars[name]; ok {
			return v
		}
		return always[name]
	})
}

func TestVariables(t *testing.T) {
	e := env(t, map[string]string{"NAME": "x", "COUNT": "-3", "CHAIN_ID": "84532", "EMPTY": ""})
	got := []any{
		e.String("NAME"), e.Optional("NAME", "y"), e.Optional("EMPTY", "y"), e.Int("COUNT"), e.Uint64("CHAIN_ID"),
		boot.Parse(e, "NAME", upper),
	}
	want := []any{"x", "x", "y", -3, uint64(84532), "X"}
	if diff := cmp.Diff(want, got); diff != "" || e.Err() != nil {
		t.Errorf("error %v (-want +got):\n%s", e.Err(), diff)
	}
}

func upper(s string) (string, error) { return strings.ToUpper(s), nil }

func TestEveryWrongVariableIsNamedAtOnce(t *testing.T) {
	e := env(t, map[string]string{"COUNT": "three", "CHAIN_ID": "-1", "BROKEN": "x", "AWS_CA_BUNDLE": "/nonexistent"})
	broken := errors.New("broken")
	e.String("NAME")
	e.Int("COUNT")
	e.Uint64("CHAIN_ID")
	e.Int("MISSING")
	boot.Parse(e, "BROKEN", func(string) (int, error) { return 1, broken })
	err := e.Err()
	if !errors.Is(err, broken) {
		t.Errorf("%v does not wrap what a parser said", err)
	}
	for _, name := range []string{"NAME is not set", "COUNT:", "CHAIN_ID:", "BROKEN:", "MISSING is not set", "AWS_CA_BUNDLE:"} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%q does not say %q", err, name)
		}
	}
}

func TestAWSConfiguration(t *testing.T) {
	cfg := env(t, nil).AWS
	creds, err := cfg.Credentials.Retrieve(t.Context())
	if err != nil || cfg.Region != "eu-west-1" || creds.AccessKeyID != "AKID" || creds.SecretAccessKey != "secret" ||
		creds.SessionToken != "token" {
		t.Errorf("region %q, credentials %+v, %v", cfg.Region, creds, err)
	}
	if _, err := env(t, map[string]string{"AWS_ACCESS_KEY_ID": ""}).AWS.Credentials.Retrieve(t.Context()); err == nil {
		t.Error("credentials without an access key")
	}
}

func TestCertificateBundle(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.UserAgent(), "app/send-payment") {
			t.Errorf("User-Agent %q does not name the function", r.UserAgent())
		}
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		_, _ = w.Write([]byte(`{"Item":{"pk":{"S":"x"}}}`))
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "ca.pem")
	must.OK(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	e := env(t, map[string]string{"AWS_ENDPOINT_URL": server.URL, "AWS_CA_BUNDLE": file, "AWS_LAMBDA_FUNCTION_NAME": "send-payment"})
	out, err := dynamodb.NewFromConfig(e.AWS).GetItem(t.Context(), get("payments"))
	if err := errors.Join(err, e.Err()); err != nil || out.Item == nil {
		t.Errorf("GetItem: %v", err)
	}
}

func get(table string) *dynamodb.GetItemInput {
	return &dynamodb.GetItemInput{TableName: &table, Key: map[string]types.AttributeValue{"pk": &types.AttributeValueMemberS{Value: "x"}}}
}
