package e2e_test

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	lambdatypes "github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"

	"github.com/remit-payouts/remit/internal/proof/must"
)

const (
	// perPayment is how many bytes a payment may log in its life: at $0.50 a gigabyte, a dollar for a million payments.
	perPayment = 2000

	// accessLines are about the lengths of API Gateway's own lines for the POST and a GET, in template.yaml's format.
	accessLines = 2 * 350
)

// TestAPaymentsLog follows payments from request to webhook and reads the lines that functions wrote.
func TestAPaymentsLog(t *testing.T) {
	const payments = 20
	s := start(t)
	m := newMerchant(t, s)
	endpoint, got := receive(t, 0)
	secret := m.call("POST", "/webhooks", map[string]any{"url": endpoint}).want(t, 201).get("secret")
	functions := []string{"SendPayment", "CheckReceipts", "DeliverWebhook"}
	before := map[string]int{}
	for _, name := range functions {
		before[name] = len(s.logged(t, name))
	}
	for i := range payments {
		m.call("POST", "/send-payment", map[string]any{"to": recipient, "amount": 1 + i}).want(t, 201)
	}
	for range payments {
		verified(t, got, secret, "payment.confirmed")
	}
	total, told := payments*accessLines, 0
	until(t, "the last line", func() bool { // a log is written when its invocation ends
		told = 0
		for _, name := range functions[:2] {
			told += strings.Count(strings.Join(s.logged(t, name)[before[name]:], "\n"), m.owner)
		}
		return told >= 2*payments
	})
	for _, name := range functions {
		size := 0
		for _, line := range s.logged(t, name)[before[name]:] {
			if !strings.HasPrefix(line, "START ") && !strings.HasPrefix(line, "END ") && !strings.HasPrefix(line, "REPORT ") { // ministack's own
				size += len(line) + 1
			}
		}
		t.Logf("%s wrote %d bytes for %d payments", name, size, payments)
		total += size
	}
	t.Logf("%d bytes a payment, with %d of API Gateway's", total/payments, accessLines)
	if total/payments > perPayment {
		t.Errorf("a payment logs %d bytes over its whole life, more than %d", total/payments, perPayment)
	}
}

// TestNoSecretIsLogged has functions handle secrets, well and badly, and looks for them in every line of every log.
func TestNoSecretIsLogged(t *testing.T) {
	s := start(t)
	o := newOperator(t)
	m := newMerchant(t, s)
	endpoint, _ := receive(t, 0)
	hook := m.call("POST", "/webhooks", map[string]any{"url": endpoint}).want(t, 201)
	renewed := m.call("POST", "/webhooks/"+hook.get("id")+"/rotate-secret", map[string]int{"expires_in_seconds": 0}).want(t, 200)
	m.call("POST", "/webhooks/"+hook.get("id")+"/test", nil).want(t, 200)
	m.call("POST", "/send-payment", map[string]any{"to": recipient, "amount": 3}).want(t, 201)
	const provider = "2f6c1e0providerkey9d8"
	secrets := append(o.secret(), provider, sampleKey, m.key, rotated(t, m, m.id(), time.Hour).key, hook.get("secret"), renewed.get("secret"))

	wallets := s.Outputs["WalletSecrets"] + s.Chain.Wallets()[0].Address.String()
	nodes, err := secretsmanager.NewFromConfig(s.Administrator()).CreateSecret(t.Context(),
		&secretsmanager.CreateSecretInput{Name: aws.String("DeadNode"),
			SecretString: aws.String(fmt.Sprintf(`{"%d":{"urls":["http://127.0.0.1:1/v3/%s"]}}`, s.Chain.ID(), provider))})
	must.OK(t, err)
	logs := ""
	for _, broken := range []struct {
		event string
		env   map[string]string
	}{
		{"authorizer", map[string]string{"API_KEYS_TABLE": "none"}},
		{"create-api-key", map[string]string{"API_KEYS_TABLE": "none"}},
		{"rotate-webhook-secret", map[string]string{"WEBHOOKS_TABLE": "none"}},
		{"get-balance", map[string]string{"RPC_SECRET": *nodes.ARN}},
		{"send-payment", map[string]string{"RPC_SECRET": *nodes.ARN}},
		{"check-receipts", map[string]string{"RPC_SECRET": *nodes.ARN}},
		{"send-payment", map[string]string{"WALLET_SECRETS": "DeadNode"}},
		{"get-balance", map[string]string{"RPC_SECRET": wallets}},
	} {
		logs += s.changed(t, broken.event, broken.env)
	}
	if !strings.Contains(logs, `"level":"ERROR"`) {
		t.Errorf("what was broken logged no error: %s", logs)
	}
	for logical := range s.Resources {
		if strings.HasSuffix(logical, "LogGroup") && logical != "ApiLogGroup" {
			logs += strings.Join(s.linesOf(t, s.Resources[logical]), "\n")
		}
	}
	for _, secret := range secrets {
		for _, form := range forms(secret) {
			if strings.Contains(logs, form) {
				t.Errorf("the secret that begins with %.12s was logged", secret)
			}
		}
	}
}

// changed gives an event to a copy of its function with another environment, which may do all, and returns its log.
func (s *stack) changed(t *testing.T, event string, env map[string]string) string {
	t.Helper()
	function := s.function(t, event)
	functions, roles := lambda.NewFromConfig(s.Administrator()), iam.NewFromConfig(s.Administrator())
	name := fmt.Sprintf("changed-%s-%d", function, time.Now().UnixNano())
	role, err := roles.CreateRole(t.Context(), &iam.CreateRoleInput{RoleName: &name, AssumeRolePolicyDocument: aws.String(
		`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"sts:AssumeRole","Principal":{"Service":"lambda.amazonaws.com"}}]}`)})
	must.OK(t, err)
	must.Get(roles.PutRolePolicy(t.Context(), &iam.PutRolePolicyInput{RoleName: &name, PolicyName: &name, PolicyDocument: aws.String(
		`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"*","Resource":"*"}]}`)}))(t)
	variables := maps.Clone(s.configuration(t, s.Resources[function+"Function"]).Environment.Variables)
	maps.Copy(variables, env)
	create(t, functions, name, function, *role.Role.Arn, variables)
	must.Get(functions.Invoke(t.Context(), &lambda.InvokeInput{FunctionName: &name, Payload: sample(t, event)}))(t)
	return strings.Join(s.linesOf(t, "/aws/lambda/"+name), "\n")
}

func (s *stack) configuration(t *testing.T, function string) *lambda.GetFunctionConfigurationOutput {
	t.Helper()
	found := must.Get(lambda.NewFromConfig(s.Administrator()).GetFunctionConfiguration(t.Context(),
		&lambda.GetFunctionConfigurationInput{FunctionName: &function}))(t)
	return found
}

// create deploys the build of a function, by its logical name, under another name.
func create(t *testing.T, functions *lambda.Client, name, function, role string, env map[string]string) {
	t.Helper()
	bootstrap := must.Get(os.ReadFile(filepath.Join(start(t).Build(), function+"Function", "bootstrap")))(t)
	must.Get(functions.CreateFunction(t.Context(), &lambda.CreateFunctionInput{FunctionName: &name, Role: &role,
		Runtime: lambdatypes.RuntimeProvidedal2023, Handler: aws.String("bootstrap"), Timeout: aws.Int32(8),
		Code: &lambdatypes.FunctionCode{ZipFile: archive(t, bootstrap)}, Environment: &lambdatypes.Environment{Variables: env}}))(t)
	t.Cleanup(func() { _, _ = functions.DeleteFunction(t.Context(), &lambda.DeleteFunctionInput{FunctionName: &name}) })
}

// forms are the ways in which a secret may be written.
func forms(secret string) []string {
	bare := strings.TrimPrefix(strings.TrimPrefix(secret, "0x"), "whsec_")
	all := []string{bare, strings.ToUpper(bare),
		hex.EncodeToString([]byte(secret)), base64.StdEncoding.EncodeToString([]byte(secret)), url.QueryEscape(secret)}
	if raw, err := hex.DecodeString(bare); err == nil {
		all = append(all, base64.StdEncoding.EncodeToString(raw), strings.Trim(fmt.Sprintf("%d", raw), "[]"))
	}
	if raw, err := base64.StdEncoding.DecodeString(bare); err == nil {
		all = append(all, hex.EncodeToString(raw), strings.Trim(fmt.Sprintf("%d", raw), "[]"))
	}
	return all
}
