package policy_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/remit-payouts/remit/internal/aws/kms/walletkey"
	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	"github.com/remit-payouts/remit/internal/cli/operator/policy"
	"github.com/remit-payouts/remit/internal/proof/must"
)

var update = flag.Bool("update", false, "write testdata anew")

// TestPolicies compares the policies of a stack in production with testdata/policies.json.
// IAM takes 6,144 characters of each, and no other stack's resource is named.
func TestPolicies(t *testing.T) {
	a := &deployed.Account{Stack: "remit", ID: "arn:aws:cloudformation:eu-west-1:123456789012:stack/remit/1a2b", Parameters: map[string]string{
		"AlarmTopicArn": "arn:aws:sns:eu-west-1:123456789012:alarms", "KmsKeyArn": "arn:aws:kms:eu-west-1:123456789012:key/1",
	}, Outputs: map[string]string{
		"ApiKeysTableName": "remit-keys", "PaymentsTableName": "remit-payments", "WebhooksTableName": "remit-webhooks",
		"RpcSecretArn": "arn:aws:secretsmanager:eu-west-1:123456789012:secret:rpc-AbCdEf", "WalletSecrets": "remit/wallets/",
		"AuditLogGroupName": "remit-audit",
		"WebhookQueueUrl":   "https://sqs/123456789012/webhooks",
	}}
	a.AWS.Region = "eu-west-1"
	list := []deployed.Resource{{ID: "App", Name: "remit-App", Kind: "AWS::CodeDeploy::Application"},
		{ID: "Group", Name: "remit-Group", Kind: "AWS::CodeDeploy::DeploymentGroup"},
		{ID: "AuditLogGroup", Name: "remit-audit", Kind: "AWS::Logs::LogGroup"}}
	for i, role := range walletkey.SigningRoles() {
		list = append(list, deployed.Resource{ID: role, Name: "remit-" + role + "-x", Kind: "AWS::IAM::Role"},
			deployed.Resource{ID: "F", Name: fmt.Sprintf("remit-function-%d", i), Kind: "AWS::Lambda::Function"})
	}
	policies := must.Get(policy.Of(a, list, "wallets#8453"))(t)
	got := must.Get(json.MarshalIndent(policies, "", "  "))(t)
	if got = append(got, '\n'); *update {
		must.OK(t, os.WriteFile("testdata/policies.json", got, 0o600))
	}
	want, err := os.ReadFile("testdata/policies.json")
	if diff := cmp.Diff(string(want), string(got)); err != nil || diff != "" {
		t.Errorf("run go test ./internal/cli/operator/policy -update and read the difference: %v\n%s", err, diff)
	}
	for role, p := range policies {
		text, _ := json.Marshal(p)
		for i := range 21 { // the functions that this list does not have, with the longest name that Lambda takes
			text = append(text, fmt.Sprintf(`"arn:aws:lambda:ap-southeast-1:123456789012:function:%064d*",`, i)...)
		}
		if len(text) > 6144 {
			t.Errorf("%s has %d characters", role, len(text))
		}
		for _, s := range p.Statement {
			for _, r := range s.Resource {
				if s.Effect == "Allow" && strings.Contains(r, "remit-*") {
					t.Errorf("%s may %v on %s, of any stack whose name begins so", role, s.Action, r)
				}
			}
		}
	}
	if _, err := policy.Of(a, nil, "wallets#8453"); err == nil || !strings.Contains(err.Error(), "deploy this version's template first") {
		t.Errorf("of a stack without functions that sign: %v", err)
	}
}
