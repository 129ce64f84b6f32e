package check_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/cli/operator/check"
	"github.com/remit-payouts/remit/internal/deployment/chains"
	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/proof/dynamotest"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/operatortest"
	"github.com/remit-payouts/remit/internal/proof/tabletest"
)

// fly runs remit preflight in the environment of the test and returns its findings by check, each after its word.
func fly(t *testing.T, parameters string) map[string]string {
	t.Helper()
	var out bytes.Buffer
	err := (&check.Preflight{Stack: "remit", Template: "../../../../template.yaml",
		Parameters: strings.Fields(parameters)}).Run(t.Context(), &out)
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

// TestPreflight: each state of an account that would fail a deployment is found, with its fix.
func TestPreflight(t *testing.T) {
	words := map[string]string{"alarms": alarms, "key": key, "a table": operatortest.Resources("AWS::DynamoDB::Table orders")}
	parameters := map[string]string{"LogLevel": "INFO", "Old": "x", "LogRetentionDays": "400", "CheckReceiptsMemory": "7", "Size": "small"}
	tabletest.Run(t, words, func(t *testing.T, c tabletest.Case) {
		over(t, &operatortest.Cloud{Status: c.In[0], Parameters: parameters, Answer: func(_ *http.Request, action, _ string) string {
			if of, text, _ := strings.Cut(c.In[2], " "); of == action {
				return text
			}
			return map[string]string{"Query": "{}", "GetItem": "{}"}[action]
		}})
		found := fly(t, c.In[1])
		if !strings.Contains(found[c.In[3]], c.Want) {
			t.Errorf("%s: %q, want %q", c.In[3], found[c.In[3]], c.Want)
		}
		delete(found, c.In[3])
		for name, text := range found {
			if strings.HasPrefix(text, "BAD") {
				t.Errorf("%s: %s", name, text)
			}
		}
	})
}

// TestPreflightTriesNodes of each rail, in the mode to deploy. A problem stops no deployment.
func TestPreflightTriesNodes(t *testing.T) {
	node := httptest.NewServer(operatortest.WellNode(nil))
	defer node.Close()
	a := operatortest.NewAccount(t)
	a.Answer = func(_ *http.Request, action, _ string) string {
		secret := fmt.Sprintf(`{"8453":{"urls":[%q]}}`, node.URL)
		return map[string]string{"GetSecretValue": fmt.Sprintf(`{"SecretString":%q}`, secret)}[action]
	}
	stored := settings.Default(must.Get(chains.Rail(map[string]string{"ChainId": "8453"}))(t))
	for _, c := range [][3]string{{"live", "", "WARN "}, {"live", "answering", "ok "}, {"test", "", "ok "}} {
		stored.Quorum, stored.At = c[1], time.Unix(1, 0)
		must.OK(t, dynamo.NewPayments(dynamotest.Client(t), "operator-payments").SetSettings(t.Context(), stored))
		stored.Version++
		if found := fly(t, "AlarmTopicArn="+alarms+" Mode="+c[0])["nodes agree"]; !strings.HasPrefix(found, c[2]) {
			t.Errorf("%s: %q", c, found)
		}
	}
}

// TestPreflightReadsTables: payments of another coin and settings that the new code cannot obey stop a deployment;
// settings that can be stored after it do not.
func TestPreflightReadsTables(t *testing.T) {
	a := operatortest.NewAccount(t)
	payments := dynamo.NewPayments(dynamotest.Client(t), "operator-payments")
	const again = " ExistingPaymentsTable=operator-payments ExistingApiKeysTable=operator-keys"
	want := func(why, parameters, want string) {
		t.Helper()
		if found := fly(t, parameters)["settings"]; !strings.HasPrefix(found, want) {
			t.Errorf("%s: %q, want %q", why, found, want)
		}
	}
	want("none are stored", "", "ok a new stack has none")
	want("a table that is not there", "ExistingPaymentsTable=nowhere", "BAD reading the rails")
	a.Status = "none"
	want("a first deployment", "", "ok a new stack has none")
	want("a stack that is made again", again, "ok a new stack has none")
	a.Status = ""
	first := settings.Default(operatortest.Rail())
	first.At = time.Unix(1, 0)
	must.OK(t, payments.SetSettings(t.Context(), first))
	want("stored", "", "ok usdc@base-sepolia at version 1")
	first.Version, first.Needs = 1, settings.Code+1
	must.OK(t, payments.SetSettings(t.Context(), first))
	want("settings of newer code", "", "BAD usdc@base-sepolia, version 2: the stored settings need newer code")
	text := func(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
	must.Get(dynamotest.Client(t).UpdateItem(t.Context(), &dynamodb.UpdateItemInput{TableName: aws.String("operator-payments"),
		Key: map[string]types.AttributeValue{"pk": text("rails"), "sk": text("01")}, UpdateExpression: aws.String("SET needs = :v"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":v": text("x")}}))(t)
	want("damaged ones", "", "BAD usdc@base-sepolia, version 2: the stored settings are damaged")
}

// TestLongName: CloudFormation would shorten the names of functions and roles.
func TestLongName(t *testing.T) {
	over(t, &operatortest.Cloud{Status: "none", Answer: func(_ *http.Request, action, _ string) string {
		return map[string]string{"Query": "{}", "GetItem": "{}"}[action]
	}})
	for n, refused := range map[int]bool{check.LongestName: false, check.LongestName + 1: true} {
		var out bytes.Buffer
		err := (&check.Preflight{Stack: strings.Repeat("r", n), Template: "../../../../template.yaml"}).Run(t.Context(), &out)
		if errors.Is(err, check.ErrNotReady) != refused || strings.Contains(out.String(), "would cut the names") != refused {
			t.Errorf("a name of %d characters: %v\n%s", n, err, &out)
		}
	}
}
