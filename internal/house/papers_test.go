package house_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/tooltest"
)

// parliament prints its findings on policies. AWS's reference, which is newer, judges actions.
const parliament = `
import json, sys
from parliament import analyze_policy_string
json.dump([f"{name}: {f.issue} {f.detail}" for name, policy in json.load(sys.stdin).items()
           if name.endswith("PolicyDocument") and "Assume" not in name
           for f in analyze_policy_string(json.dumps(policy)).findings
           if f.issue not in ("RESOURCE_STAR", "UNKNOWN_ACTION")], sys.stdout)`

// planted are mistakes in a stack: a property below its resource, a wrong value, and the finding of AWS's models, of its
// reference, or of parliament. A text in braces is a policy's statement.
var planted = []struct {
	resource, property, wrong, want string
	by                              int
}{
	{"SendPaymentErrorsAlarm", "ComparisonOperator", `"GreaterThan"`, "PutMetricAlarm.ComparisonOperator: GreaterThan is not of", 0},
	{"SendPaymentErrorsAlarm", "Treshold", `1`, `Unknown parameter in input: "Treshold"`, 0},
	{"WebhookQueue", "VisibilityTimeOut", `180`, "VisibilityTimeOut is not of", 0},
	{"SendPaymentFunction", "Description", `"` + strings.Repeat("x", 257) + `"`, "257 is more than 256", 0},
	{"GetKeys", "PolicyDocument", `{"Action": "dynamodb:ReadItem", "Resource": "*"}`, "AWS has no action dynamodb:ReadItem", 1},
	{"ReadNodes", "PolicyDocument", `{"Action": "secretsmanager:GetSecretValue", "Resource": "*",
		"Condition": {"StringEquals": {"dynamodb:LeadingKeys": "x"}}}`, "GetSecretValue has no condition key dynamodb:LeadingKeys", 1},
	{"ReadPayments", "PolicyDocument", `{"Action": "dynamodb:Query", "Resource": "arn:aws:sqs:us-east-1:123456789012:x"}`,
		"RESOURCE_MISMATCH", 2},
}

// excused are findings without a fault: CreateKey asks for a right before the key has tags, and SAM's transform is AWS's own.
var excused = []string{
	"stack: PolicyDocument: kms:PutKeyPolicy has no condition key aws:RequestTag/remit-webhooks",
	"deployer: PolicyDocument: INVALID_ARN Account expected to be of form like 123456789012",
}

// TestTemplateOnPaper: AWS's own models take the requests that create each stack of testdata/stages.json; its reference has
// each action of a policy, with the condition keys; parliament finds nothing. Each finds mistakes in a stack with some.
func TestTemplateOnPaper(t *testing.T) {
	tooltest.Path(t, "a simulator of IAM", ".cache/iam/node_modules")
	var stages map[string]node
	must.OK(t, json.Unmarshal(must.Get(os.ReadFile("testdata/stages.json"))(t), &stages))
	asked := node{}
	for stage, template := range transformed(t) {
		asked[stage] = node{"template": template, "parameters": stages[stage]["parameters"]}
	}
	wrong := transformed(t)["dev"]
	for _, p := range planted {
		var value any
		must.OK(t, json.Unmarshal([]byte(p.wrong), &value))
		if statement, is := value.(node); is {
			statement["Effect"] = "Allow"
			value = node{"Version": "2012-10-17", "Statement": []any{statement}}
		}
		at[node](wrong, "Resources."+p.resource+".Properties")[p.property] = value
	}
	asked["planted"] = node{"template": wrong, "parameters": stages["dev"]["parameters"]}

	var models struct {
		Checked  int
		Findings []string
		Policies node
	}
	python(t, node{"stacks": asked}, &models, "tools/models")
	places := strings.NewReplacer("REGION", "us-east-1", "ACCOUNT", "123456789012",
		"KMS_KEY_ARN", "arn:aws:kms:us-east-1:123456789012:key/x")
	for _, name := range []string{"deployer", "stack"} {
		var policy node
		must.OK(t, json.Unmarshal([]byte(places.Replace(string(files(t)["tools/pipeline/"+name+".json"]))), &policy))
		models.Policies[name+": PolicyDocument"] = policy
	}
	if models.Checked < 100*len(asked) || len(models.Policies) < 50*len(asked) {
		t.Errorf("only %d requests and %d policies were checked", models.Checked, len(models.Policies))
	}
	var reference, second []string
	run(t, node{"policies": models.Policies}, &reference, tooltest.Program(t, "Node.js", "node"), "tools/iam/check.mjs")
	python(t, models.Policies, &second, "-c", parliament)
	for by, findings := range [][]string{models.Findings, reference, second} {
		for _, finding := range findings {
			if !strings.HasPrefix(finding, "planted: ") && !slices.Contains(excused, finding) {
				t.Error(finding)
			}
		}
		for _, p := range planted {
			if p.by == by && !slices.ContainsFunc(findings, func(f string) bool {
				return strings.HasPrefix(f, "planted: "+p.resource) && strings.Contains(f, p.want)
			}) {
				t.Errorf("%s of %s as %s is not found: %q", p.property, p.resource, p.wrong, findings)
			}
		}
	}
}
