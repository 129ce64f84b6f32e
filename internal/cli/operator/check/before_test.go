package check_test

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/cli/operator/check"
	"github.com/remit-payouts/remit/internal/deployment/chains"
	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/proof/dynamotest"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/operatortest"
)

// fly runs remit preflight in the environment of the test and returns its findings by check, each after its word.
func fly(t *testing.T, parameters string) map[string]string {
	t.Helper()
	var out bytes.Buffer
	err := (&check.Preflight{Stack: "remit", Template: "../../../../template.yaml", Parameters: strings.Fields(parameters)}).Run(t.Context(),
		&out)
	found, last := map[string]string{}, ""
	for line := range strings.Lines(out.String()) {
		if more, is := strings.CutPrefix(line, "     "); is {
			found[last] += more
		} else if len(line) > 33 && !strings.HasPrefix(line, "deploying") {
			last = strings.TrimSpace(line[5:33])
			found[last] = strings.TrimSpace(line[:4]) + " " + line[34:]
		}
	}
	if bad := strings.Contains(out.String(), "\nBAD "); errors.Is(err, check.ErrNotReady) != bad || !bad && err != nil {
		t.Errorf("preflight ended with %v and\n%s", err, &out)
	}
	return found
}

// over has the environment of the test name a cloud.
func over(t *testing.T, cloud *operatortest.Cloud) {
	t.Helper()
	server := httptest.NewServer(cloud)
	t.Cleanup(server.Close)
	for name, value := range map[string]string{"AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "remit",
		"AWS_SECRET_ACCESS_KEY": "remit", "AWS_ENDPOINT_URL": server.URL} {
		t.Setenv(name, value)
	}
}

const (
	alarms = "arn:aws:sns:us-east-1:123456789012:alarms"
	key    = "arn:aws:kms:us-east-1:123456789012:key/1"
)

// template is the answer to GetTemplate.
func template(text string) string {
	return "<R><GetTemplateResult><TemplateBody><![CDATA[" + text + "]]></TemplateBody></GetTemplateResult></R>"
}

// TestPreflight: each state of an account that would fail a deployment is found, with its fix.
func TestPreflight(t *testing.T) {
	const describe = `DescribeKey {"KeyMetadata":{"KeyManager":"CUSTOMER","KeySpec":"SYMMETRIC_DEFAULT",`
	for _, c := range []struct {
		why, status, parameters, answer string // to one action
		check, want                     string
	}{
		{"all is well", "", "Size=small AlarmTopicArn=" + alarms + " KmsKeyArn=" + key, "", "alarm topics", "ok " + alarms},
		{"nothing is there", "none", "", "", "stack", "ok a first deployment"},
		{"left in review", "REVIEW_IN_PROGRESS", "", "", "stack", "ok"},
		{"an update under way", "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS", "", "", "stack", "BAD remit is being changed"},
		{"a rollback that failed", "UPDATE_ROLLBACK_FAILED", "", "", "stack", "BAD the last change of remit failed (UPDATE_ROLLBACK_FAILED)\n" +
			"aws cloudformation continue-update-rollback --stack-name remit --region us-east-1\n"},
		{"an update that failed", "UPDATE_FAILED", "", "", "stack", "aws cloudformation rollback-stack"},
		{"a first deployment that failed", "ROLLBACK_COMPLETE", "", "", "stack", "(ROLLBACK_COMPLETE)\naws cloudformation delete-stack"},
		{"one that left a table", "ROLLBACK_FAILED", "", "ListStackResources " + operatortest.Resources("AWS::DynamoDB::Table orders"),
			"stack", "table orders stays: if it has items name it in its parameter Existing…Table"},
		{"versions that a rollback left", "UPDATE_ROLLBACK_COMPLETE", "", "ListStackResources " + operatortest.Resources(
			"AWS::Lambda::Function pay", "AWS::Lambda::Version arn:function:pay:9"), "left versions",
			"WARN an update was rolled back and has left versions; delete them before you deploy it again\n" +
				"aws lambda delete-function --function-name arn:function:pay --qualifier 10 --region us-east-1\n"},
		{"parameters that change, go and stay", "", `LogLevel="DEBUG" TokenLow=7`, "", "parameters",
			"LogLevel: INFO → DEBUG\nLogRetentionDays: keeps 90, its default is \"30\"\nOld: x → none\nTokenAddress: keeps"},
		{"resources of another region", "none", "ReplicaRegion=us-east-1 UrgentTopicArn=" + strings.Replace(alarms, "us-east", "eu-west", 1),
			"", "region", "BAD UrgentTopicArn is in eu-west-1; name one in us-east-1, or deploy to eu-west-1\nReplicaRegion is"},
		{"no log role", "", "", "account {}", "log role of API Gateway",
			"path=/cloudwatchRoleArn,value=arn:aws:iam::123456789012:role/apigateway-logs --region us-east-1\n"},
		{"too small a quota", "none", "Size=medium", "", "concurrency", "BAD the stack reserves 1076 executions, and the account has 900 to " +
			"reserve of its quota of 1000 (AWS raises it within days)\naws service-quotas " +
			"request-service-quota-increase --service-code lambda --quota-code L-B99A9384 --desired-value 1176 "},
		{"a quota of which the stack has a part", "", "Size=medium", "GetTemplate " + template(
			`{"Resources":{"F":{"Properties":{"ReservedConcurrentExecutions":{"Ref":"ChainId"}}}}}`), "concurrency",
			"ok the stack reserves 1076 executions, and the account has 85432 to reserve"},
		{"no such topic", "", "AlarmTopicArn=" + alarms, "GetTopicAttributes !NotFound", "alarm topics", "BAD looking for " + alarms},
		{"a topic that EventBridge may not use", "", "UrgentTopicArn=" + alarms, "GetTopicAttributes <R><GetTopicAttributesResult/></R>",
			"alarm topics", "WARN EventBridge may not publish to " + alarms},
		{"no such key", "", "KmsKeyArn=" + key, "DescribeKey !NotFoundException", "KMS key", "BAD looking for " + key},
		{"a disabled key", "", "KmsKeyArn=" + key, describe + `"KeyState":"Disabled"}}`, "KMS key", "BAD " + key + " is Disabled\nenable it"},
		{"a key that signs", "", "KmsKeyArn=" + key, describe + `"Enabled":true,"KeySpec":"RSA_2048"}}`, "KMS key", "not a symmetric key"},
		{"AWS's key", "", "KmsKeyArn=" + key, describe + `"Enabled":true,"KeyManager":"AWS"}}`, "KMS key", "not a symmetric key of your own"},
		{"real money without alarms", "", "Mode=live", "", "closed", "BAD A live stack needs a topic"},
		{"production that reserves nothing", "", "Mode=live Environment=prod AlarmTopicArn=" + alarms, "",
			"reserved concurrency", "WARN the Size is sandbox"},
		{"no list of nodes", "", "", "", "nodes agree", "WARN nodes: the secret has no value yet"},
	} {
		t.Run(c.why, func(t *testing.T) {
			over(t, &operatortest.Cloud{Status: c.status, Parameters: map[string]string{"LogLevel": "INFO", "Old": "x",
				"LogRetentionDays": "90", "TokenLow": "7"}, Answer: func(_ *http.Request, action, _ string) string {
				if of, text, _ := strings.Cut(c.answer, " "); of == action {
					return text
				}
				return map[string]string{"Query": "{}", "GetItem": "{}", "GetTemplate": template("{}"),
					"versions": `{"Versions":[{"Version":"$LATEST"},{"Version":"8"},{"Version":"9"},{"Version":"10"}]}`}[action]
			}})
			found := fly(t, c.parameters)
			if !strings.Contains(found[c.check], c.want) {
				t.Errorf("%s: %q, want %q", c.check, found[c.check], c.want)
			}
			delete(found, c.check)
			for name, text := range found {
				if strings.HasPrefix(text, "BAD") {
					t.Errorf("%s: %s", name, text)
				}
			}
		})
	}
}

// TestPreflightTriesNodes, as doctor does, with the parameters to deploy. It stops no deployment.
func TestPreflightTriesNodes(t *testing.T) {
	good, strict := httptest.NewServer(operatortest.WellNode(operatortest.Node{"eth_estimateGas": `"result":"0xc350"`})),
		httptest.NewServer(operatortest.WellNode(operatortest.Node{"eth_estimateGas": `"result":"0xc350"`,
			"eth_estimateGas of 178": `"error":{"code":3,"message":"execution reverted"}`}))
	defer good.Close()
	defer strict.Close()
	own, _ := chains.Of(8453)
	for _, c := range []struct{ parameters, url, check, want string }{
		{"Mode=live", good.URL, "nodes agree", "WARN "},
		{"Mode=live Quorum=answering", good.URL, "nodes agree", "ok "},
		{"Mode=test", good.URL, "nodes agree", "ok "},
		{"Mode=test", good.URL, "memo", "ok the token takes a payment's id"},
		{"Mode=test", strict.URL, "memo", "WARN the token takes no payment's id"},
		{"TokenDecimals=18", good.URL, "token", "WARN 127.0.0.1"},
	} {
		over(t, &operatortest.Cloud{Nodes: []string{c.url}, Answer: func(_ *http.Request, action, _ string) string {
			return map[string]string{"Query": "{}", "GetItem": "{}"}[action]
		}})
		found := fly(t, "ChainId=8453 TokenAddress="+own.USDC+" AlarmTopicArn="+alarms+" "+c.parameters)
		if !strings.HasPrefix(found[c.check], c.want) {
			t.Errorf("%s: %s: %q, want %q", c.parameters, c.check, found[c.check], c.want)
		}
	}
}

// TestPreflightReadsTables: payments of another coin and settings that the new code cannot obey stop a deployment; settings
// that can be stored after it do not.
func TestPreflightReadsTables(t *testing.T) {
	a := operatortest.NewAccount(t)
	payments, keys := dynamo.NewPayments(dynamotest.Client(t), "operator-payments"), dynamo.NewAPIKeys(dynamotest.Client(t), "operator-keys")
	const again = " ExistingPaymentsTable=operator-payments ExistingApiKeysTable=operator-keys"
	want := func(why, parameters, want string) {
		t.Helper()
		if found := fly(t, parameters)["settings"]; !strings.HasPrefix(found, want) {
			t.Errorf("%s: %q, want %q", why, found, want)
		}
	}
	want("none are stored", "", "WARN payments, version 0: no settings are stored")
	want("a table that is not there", "ExistingPaymentsTable=nowhere", "BAD reading the settings of payments")
	a.Status = "none"
	want("a first deployment", "", "ok a new stack has none")
	want("a stack that is made again", again, "WARN payments, version 0: no settings are stored")
	a.Status = ""
	first, ofKeys := settings.Default(), settings.DefaultKeys(false)
	first.At, ofKeys.At = time.Unix(1, 0), time.Unix(1, 0)
	must.OK(t, errors.Join(payments.SetSettings(t.Context(), first), keys.SetKeySettings(t.Context(), ofKeys)))
	want("stored", "", "ok payments at version 1, keys at version 1")
	base := store.Coin{ChainID: 8453, Token: token.Address{0xc0}}
	must.OK(t, payments.Bind(t.Context(), base, time.Unix(1, 0)))
	same := "ChainId=8453 TokenAddress=" + base.Token.String()
	want("the coin of the payments", same, "WARN payments, version 1: a live stack makes no payment without limits")
	want("another chain", same+" ChainId=1", "BAD payments, version 1: the payments of these tables are of another coin")
	want("another token", "ChainId=8453", "BAD payments, version 1: the payments of these tables are of another coin")
	first.Version, first.Needs = 1, settings.Code+1
	must.OK(t, payments.SetSettings(t.Context(), first))
	want("settings of newer code", same, "BAD payments, version 2: the stored settings need newer code")
}
