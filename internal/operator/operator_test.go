package operator_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"remit/internal/dynamo"
	"remit/internal/dynamo/dynamotest"
	"remit/internal/operator"
	"remit/internal/store"
)

// An account is an AWS account with one stack: CloudFormation and Secrets Manager
// as far as the commands use them, and DynamoDB.
type account struct {
	*testing.T
	secret string // the wallet secret; "" until it is written
}

func newAccount(t *testing.T) *account {
	t.Helper()
	tables := dynamo.Tables{APIKeys: "operator-keys", Payments: "operator-payments", Webhooks: "operator-webhooks"}
	if err := dynamo.CreateTables(t.Context(), dynamotest.Client(t), tables); err != nil {
		t.Fatal(err)
	}
	a := &account{T: t}
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	for name, value := range map[string]string{
		"AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b",
		"AWS_ENDPOINT_URL": server.URL, "AWS_ENDPOINT_URL_DYNAMODB": dynamotest.Start(t),
	} {
		t.Setenv(name, value)
	}
	return a
}

// ServeHTTP answers as the two services do.
func (a *account) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var asked struct{ SecretID, SecretString string }
	_ = json.Unmarshal(body, &asked) // CloudFormation's is a form
	switch action := r.Header.Get("X-Amz-Target"); {
	case action == "secretsmanager.PutSecretValue":
		a.secret = asked.SecretString
		_, _ = io.WriteString(w, `{}`)
	case action == "secretsmanager.GetSecretValue" && (a.secret == "" || asked.SecretID == "nodes"):
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"__type":"ResourceNotFoundException"}`)
	case action == "secretsmanager.GetSecretValue":
		_ = json.NewEncoder(w).Encode(map[string]string{"SecretString": a.secret})
	case strings.Contains(string(body), "DescribeStacks"):
		member := func(kind, name, value string) string {
			return fmt.Sprintf("<member><%[1]sKey>%[2]s</%[1]sKey><%[1]sValue>%[3]s</%[1]sValue></member>", kind, name, value)
		}
		_, _ = fmt.Fprint(w, "<DescribeStacksResponse><DescribeStacksResult><Stacks><member><StackName>remit</StackName><Outputs>",
			member("Output", "PaymentsTableName", "operator-payments"), member("Output", "ApiKeysTableName", "operator-keys"), member("Output", "WebhookQueueUrl", "http://queue"), member("Output", "WalletSecretArn", "wallets"), member("Output", "RpcSecretArn", "nodes"),
			"</Outputs><Parameters>", member("Parameter", "ChainId", "84532"), member("Parameter", "TokenSymbol", "USDC"), member("Parameter", "TokenDecimals", "6"),
			member("Parameter", "TokenAddress", "0x036CbD53842c5426634e7929541eC2318f3dCF7e"), member("Parameter", "Mode", "test"),
			"</Parameters></member></Stacks></DescribeStacksResult></DescribeStacksResponse>")
	default:
		a.Errorf("asked for %s %s", action, body)
	}
}

// remit runs an operator's command line and returns its standard output.
func (a *account) remit(line string) (string, error) {
	a.Helper()
	var cli struct {
		Wallet  operator.Wallet  `cmd:""`
		Keys    operator.Keys    `cmd:""`
		Payment operator.Payment `cmd:""`
	}
	var out strings.Builder
	parser, err := kong.New(&cli, kong.BindTo(a.Context(), (*context.Context)(nil)), kong.BindTo(io.Writer(&out), (*io.Writer)(nil)))
	if err != nil {
		a.Fatal(err)
	}
	parsed, err := parser.Parse(strings.Fields(line))
	if err != nil {
		a.Fatal(err)
	}
	err = parsed.Run()
	return out.String(), err
}

// TestCommands runs commands one after another, as an operator of a new stack
// does. The key that is imported is in no answer.
func TestCommands(t *testing.T) {
	a := newAccount(t)
	const key, address = "0x4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318", "0x2c7536E3605D9C16a7a3D7b1898e529396a65c23"
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		why, line, want string // want is in the answer, or in the error after !
	}{
		{"nothing is written without consent", "wallet import --file " + file, "!nothing was done: say --yes"},
		{"a secret without a value has no wallets", "wallet list --json", "[]"},
		{"the address is all that is shown of a key", "wallet import --yes --file " + file, "Fund it with USDC and gas."},
		{"a key is put in once", "wallet import --yes --file " + file, "!is there already"},
		{"the wallet has made no payment", "wallet list", address + "  active      not used             0        0                   0  \n"},
		{"and may make no new ones", "wallet drain --yes " + address, "done"},
		{"which the list shows", "wallet list --json", `"key": "draining"`},
		{"until that is undone", "wallet drain --yes --undo --json " + address, `"draining": false`},
		{"a wallet that the secret does not have", "wallet drain --yes 0x1111111111111111111111111111111111111111", "!no key for wallet"},
		{"a pause is for a wallet that has paid", "wallet pause --yes " + address, "!wallet has no record yet"},
		{"a pause without a reason", "wallet pause --yes --reason= " + address, "!--reason is empty"},
		{"a merchant without keys", "keys list mer_1 --json", "[]"},
		{"a payment that does not exist", "payment show pay_1", "!" + store.ErrNotFound.Error()},
		{"whose key it is must be said", "payment show order-1", "!add --merchant"},
		{"a hash that is mistyped", "payment show 0x1111", "!0x1111 is no transaction hash: that is 0x and 64 hex digits"},
		{"nodes that nobody put in", "wallet balance", `!the secret has no value yet: put {"urls":["https://…"]} into it`},
		{"a restricted key", "keys create Acme --yes --scopes keys --daily-count 3 --daily-amount 50 --max-amount 7 --recipients book --label Till --expires-in 1h", `May do: keys, max 7, daily 50, 3 a day, book, "Till". The key is not shown again.`},
		{"a scope that is none", "keys create Acme --yes --scopes admin", `!--scopes: "admin" is none of [payments:write`},
		{"too many payments", "keys create Acme --yes --daily-count 1000000001", "!--daily-count is at most 1000000000"},
		{"a life before now", "keys create Acme --yes --expires-in=-1h", "!--expires-in must not be negative"},
		{"an output that an older template lacks", "keys issue mer_1 --yes", "!stack remit has no output WebhooksTableName: deploy this version's template first"},
	} {
		out, err := a.remit(step.line)
		said, wantErr := out, false
		if want, ok := strings.CutPrefix(step.want, "!"); ok {
			said, step.want, wantErr = fmt.Sprint(err), want, true
		}
		if (err != nil) != wantErr || !strings.Contains(said, step.want) {
			t.Errorf("%s: remit %s: error %v, answer %q, want %q", step.why, step.line, err, out, step.want)
		}
		if strings.Contains(out+fmt.Sprint(err), key[2:]) {
			t.Errorf("%s: remit %s shows the key", step.why, step.line)
		}
	}
	if !strings.Contains(a.secret, key[2:]) {
		t.Error("the secret does not have the key")
	}
}
