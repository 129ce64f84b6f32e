package operator_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"remit/internal/dynamo"
	"remit/internal/dynamo/dynamotest"
	"remit/internal/operator"
	"remit/internal/store"
	"remit/internal/wallet"
)

// An account is an AWS account with one stack: CloudFormation and Secrets Manager
// as far as the commands use them, and DynamoDB.
type account struct {
	*testing.T
	secrets map[string]string // by name
	made    time.Time         // when each of them was
	breaks  string            // the action that fails once, after it has had its effect

	parameters map[string]string // of the stack, beside the chain's
	identified func()            // once, when a command asks who runs it
	published  []string          // messages to the alarm topic
	deaf       bool              // which takes none
}

func newAccount(t *testing.T) *account {
	t.Helper()
	dynamotest.Clear(t)
	tables := dynamo.Tables{APIKeys: "operator-keys", Payments: "operator-payments", Webhooks: "operator-webhooks"}
	if err := dynamo.CreateTables(t.Context(), dynamotest.Client(t), tables); err != nil {
		t.Fatal(err)
	}
	a := &account{T: t, secrets: map[string]string{}, made: time.Now(), parameters: map[string]string{"Mode": "test"}}
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	for name, value := range map[string]string{
		"AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "remit", "AWS_SECRET_ACCESS_KEY": "remit",
		"AWS_ENDPOINT_URL": server.URL, "AWS_ENDPOINT_URL_DYNAMODB": dynamotest.Start(t),
	} {
		t.Setenv(name, value)
	}
	return a
}

// ServeHTTP answers as the two services do.
func (a *account) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var asked struct{ SecretID, Name, SecretString string }
	_ = json.Unmarshal(body, &asked) // CloudFormation's is a form
	fail := func(kind string) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprintf(w, `{"__type":%q}`, kind)
	}
	action := r.Header.Get("X-Amz-Target")
	switch {
	case action == "secretsmanager.CreateSecret" && a.secrets[asked.Name] != "":
		fail("ResourceExistsException")
	case action == "secretsmanager.CreateSecret":
		a.secrets[asked.Name] = asked.SecretString
		if a.breaks == action {
			a.breaks = ""
			fail("InternalServiceError")
			return
		}
		_, _ = io.WriteString(w, `{}`)
	case action == "secretsmanager.ListSecrets":
		list := []map[string]any{}
		for name := range a.secrets {
			list = append(list, map[string]any{"Name": name, "CreatedDate": a.made.Unix()})
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"SecretList": list})
	case action == "secretsmanager.GetSecretValue" && asked.SecretID == "nodes":
		fail("ResourceNotFoundException")
	case strings.Contains(string(body), "Action=Publish"):
		if a.deaf {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		form, _ := url.ParseQuery(string(body))
		a.published = append(a.published, form.Get("TopicArn")+" "+form.Get("Message"))
		_, _ = io.WriteString(w, "<PublishResponse><PublishResult><MessageId>1</MessageId></PublishResult></PublishResponse>")
	case strings.Contains(string(body), "GetCallerIdentity"):
		if meanwhile := a.identified; meanwhile != nil {
			a.identified = nil
			meanwhile()
		}
		_, _ = io.WriteString(w, "<GetCallerIdentityResponse><GetCallerIdentityResult><Arn>arn:aws:iam::1:user/ada</Arn></GetCallerIdentityResult></GetCallerIdentityResponse>")
	case strings.Contains(string(body), "DescribeStacks"):
		member := func(kind, name, value string) string {
			return fmt.Sprintf("<member><%[1]sKey>%[2]s</%[1]sKey><%[1]sValue>%[3]s</%[1]sValue></member>", kind, name, value)
		}
		more := ""
		for name, value := range a.parameters {
			more += member("Parameter", name, value)
		}
		_, _ = fmt.Fprint(w, "<DescribeStacksResponse><DescribeStacksResult><Stacks><member><StackName>remit</StackName><Outputs>",
			member("Output", "PaymentsTableName", "operator-payments"), member("Output", "ApiKeysTableName", "operator-keys"),
			member("Output", "WebhookQueueUrl", "http://queue"), member("Output", "WalletSecrets", "remit/wallets/"),
			member("Output", "RpcSecretArn", "nodes"),
			"</Outputs><Parameters>", member("Parameter", "ChainId", "84532"), member("Parameter", "TokenSymbol", "USDC"),
			member("Parameter", "TokenDecimals", "6"),
			member("Parameter", "TokenAddress", "0x036CbD53842c5426634e7929541eC2318f3dCF7e"), more,
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

		Merchants operator.Merchants `cmd:""`
		AuditLog  operator.AuditLog  `cmd:""`
		Settings  operator.Settings  `cmd:""`
		Console   operator.Console   `cmd:""`
		Doctor    operator.Doctor    `cmd:""`
	}
	ctx := operator.Recorded(a.Context(), strings.Fields(line))
	var out strings.Builder
	parser, err := kong.New(&cli, kong.BindTo(ctx, (*context.Context)(nil)), kong.BindTo(io.Writer(&out), (*io.Writer)(nil)))
	if err != nil {
		a.Fatal(err)
	}
	parsed, err := parser.Parse(strings.Fields(line))
	if err != nil {
		a.Fatal(err)
	}
	err = operator.Ended(ctx, parsed.Run())
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
		{"a new stack has no wallets", "wallet list --json", "[]"},
		{"the address is all that is shown of a key", "wallet import --yes --file " + file, "Fund it with USDC and gas."},
		{"a key is put in once", "wallet import --yes --file " + file, "!is there already"},
		{"the wallet has made no payment", "wallet list", address + "  active      not used             0        0                   0  \n"},
		{"and may make no new ones", "wallet drain --yes " + address, "done"},
		{"which the list shows", "wallet list --json", `"state": "draining"`},
		{"until that is undone", "wallet drain --yes --undo --json " + address, `"state": "active"`},
		{"a wallet that is not registered", "wallet drain --yes 0x1111111111111111111111111111111111111111", "!is no wallet of the stack"},
		{"a pause is for a wallet that has paid", "wallet pause --yes " + address, "!wallet has no record yet"},
		{"a pause without a reason", "wallet pause --yes --reason= " + address, "!--reason is empty"},
		{"a merchant without keys", "keys list mer_1 --json", "[]"},
		{"a payment that does not exist", "payment show pay_1", "!" + store.ErrNotFound.Error()},
		{"whose key it is must be said", "payment show order-1", "!add --merchant"},
		{"a hash that is mistyped", "payment show 0x1111", "!0x1111 is no transaction hash: that is 0x and 64 hex digits"},
		{"nodes that nobody put in", "wallet balance", `!the secret has no value yet: put {"urls":["https://…"]} into it`},
		{"a restricted key", "keys create Acme --yes --scopes webhooks --daily-count 3 --daily-amount 50 --max-amount 7 --recipients " +
			"book --label Till --expires-in 1h", `May do: webhooks, max 7, daily 50, 3 a day, book, "Till". The key is not shown again.`},
		{"limits of a key that manages keys", "keys create Acme --yes --scopes keys --daily-count 3", "!a key with the scope keys has no limits"},
		{"a scope that is none", "keys create Acme --yes --scopes admin", `!--scopes: "admin" is none of [payments:write`},
		{"too many payments", "keys create Acme --yes --daily-count 1000000001", "!--daily-count is at most 1000000000"},
		{"a life before now", "keys create Acme --yes --expires-in=-1h", "!--expires-in must not be negative"},
		{"what was done is in the audit log, with who did it", "audit-log",
			"done      arn:aws:iam::1:user/ada  remit wallet import --yes --file"},
		{"a key that there is not", "keys revoke --yes mer_1 key_1", "!no such API key"},
		{"and what was refused", "audit-log", "not done  arn:aws:iam::1:user/ada  remit keys revoke --yes mer_1 key_1"},
		{"a merchant that there is not", "merchants suspend mer_1 --reason=x --yes",
			`!no merchant "mer_1" has a key: remit merchants list shows all`},
		{"what was not agreed to is not in it", "audit-log --since 1ns --json", "[]"},
		{"an output that an older template lacks", "keys issue mer_1 --yes",
			"!stack remit has no output WebhooksTableName: deploy this version's template first"},
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
	if !strings.Contains(a.secrets["remit/wallets/"+address], key[2:]) {
		t.Errorf("the secrets are of %d wallets, and not of the imported one", len(a.secrets))
	}
}

// TestCreate makes wallets by two commands at once, and by one that stops after the key
// is stored: no key is lost, none is read, and no wallet is registered without its key.
func TestCreate(t *testing.T) {
	a := newAccount(t)
	if err := dynamo.CreateTables(t.Context(), dynamotest.Client(t),
		dynamo.Tables{APIKeys: "create-keys", Payments: "create-payments", Webhooks: "create-webhooks"}); err != nil {
		t.Fatal(err)
	}
	tables := dynamo.NewPayments(dynamotest.Client(t), "create-payments")
	const create = "wallet create --yes --table payments=create-payments"
	registered := func() (all []string) {
		wallets, err := tables.Wallets(t.Context(), 84532)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range wallets {
			if all = append(all, r.Address.String()); r.State != wallet.Active || r.Key != wallet.InSecret || r.Opened ||
				a.secrets["remit/wallets/"+all[len(all)-1]] == "" {
				t.Errorf("%+v, with a secret: %t", r, a.secrets["remit/wallets/"+all[len(all)-1]] != "")
			}
		}
		return all
	}
	a.breaks = "secretsmanager.CreateSecret"
	if out, err := a.remit(create); err == nil || out != "" || !strings.Contains(err.Error(), "run remit wallet create in a minute") ||
		len(registered()) != 0 {
		t.Errorf("while it is not known whether the key is stored: %q, %v", out, err)
	}
	stored := slices.Collect(maps.Keys(a.secrets))
	if len(stored) != 1 {
		t.Fatalf("%d keys are stored", len(stored))
	}
	if out, err := a.remit(create); err != nil || len(registered()) != 2 || len(a.secrets) != 2 {
		t.Errorf("at once after it, when another operator's command may be at work: %q, %v", out, err)
	}
	a.breaks = "secretsmanager.CreateSecret"
	_, _ = a.remit(create)
	a.made = time.Now().Add(-2 * time.Minute)
	if out, err := a.remit(create); err != nil || len(registered()) != 3 || len(a.secrets) != 3 {
		t.Errorf("two minutes after another: %q, %v, %d wallets, %d keys", out, err, len(registered()), len(a.secrets))
	}
	if out, err := a.remit(create); err != nil || len(registered()) != 4 || len(a.secrets) != 4 {
		t.Errorf("then: %q, %v", out, err)
	}
}
