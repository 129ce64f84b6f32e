package operator

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"remit/internal/kms"
	"remit/internal/store"
)

var update = flag.Bool("update", false, "write testdata anew")

// TestPolicies compares the policies of a stack in production with testdata/policies.json.
// IAM takes 6,144 characters of each, and no other stack's resource is named.
func TestPolicies(t *testing.T) {
	a := &account{stack: "remit", id: "arn:aws:cloudformation:eu-west-1:123456789012:stack/remit/1a2b", parameters: map[string]string{
		"AlarmTopicArn": "arn:aws:sns:eu-west-1:123456789012:alarms", "KmsKeyArn": "arn:aws:kms:eu-west-1:123456789012:key/1",
	}, outputs: map[string]string{
		"ApiKeysTableName": "remit-keys", "PaymentsTableName": "remit-payments", "WebhooksTableName": "remit-webhooks",
		"RpcSecretArn": "arn:aws:secretsmanager:eu-west-1:123456789012:secret:rpc-AbCdEf", "WalletSecrets": "remit/wallets/", "AuditLogGroupName": "remit-audit",
		"WebhookQueueUrl": "https://sqs/123456789012/webhooks", "WebhookDeadLetterQueueUrl": "https://sqs/123456789012/dead",
		"SettleQueueUrl": "https://sqs/123456789012/settle", "CheckReceiptsDeadLetterQueueUrl": "https://sqs/123456789012/runs",
	}}
	a.aws.Region = "eu-west-1"
	list := []listed{{"App", "remit-App", "AWS::CodeDeploy::Application"}, {"Group", "remit-Group", "AWS::CodeDeploy::DeploymentGroup"}}
	for i, role := range kms.SigningRoles() {
		list = append(list, listed{role, "remit-" + role + "-x", "AWS::IAM::Role"}, listed{"F", fmt.Sprintf("remit-function-%d", i), "AWS::Lambda::Function"})
	}
	policies, err := a.policies(list, "wallets#8453")
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.MarshalIndent(policies, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if got = append(got, '\n'); *update {
		if err := os.WriteFile("testdata/policies.json", got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/policies.json")
	if diff := cmp.Diff(string(want), string(got)); err != nil || diff != "" {
		t.Errorf("run go test ./internal/operator -run TestPolicies -update and read the difference: %v\n%s", err, diff)
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
	if _, err := a.policies(nil, "wallets#8453"); err == nil || !strings.Contains(err.Error(), "deploy this version's template first") {
		t.Errorf("of a stack without functions that sign: %v", err)
	}
}

// TestAuditLogAndItsCopy: neither can lose, gain or change an entry that the other has.
func TestAuditLogAndItsCopy(t *testing.T) {
	entry := func(id string, minutes int, effect string) store.Act {
		return store.Act{ID: id, At: noon.Add(time.Duration(minutes) * time.Minute), Who: "ada", Effect: effect, Outcome: store.Begun}
	}
	old, both, other, late := entry("old", -9, ""), entry("both", 0, ""), entry("other", 1, ""), entry("late", 57, "")
	for _, test := range []struct {
		why             string
		table           []store.Act
		copies          []copied
		inTable, inCopy string
	}{
		{"an entry of before the copy, one that the copy does not show yet, one of the table before a restore",
			[]store.Act{old, both, late}, []copied{{"payments", both}, {"payments-old", other}}, "", ""},
		{"an entry that was deleted", nil, []copied{{"payments", both}}, "", "12:00:00"},
		{"an entry that nobody copied", []store.Act{both, other}, []copied{{"payments", both}}, "12:01:00", ""},
		{"an entry that was replaced", []store.Act{entry("both", 0, "another")}, []copied{{"payments", both}}, "12:00:00", "12:00:00"},
		{"a table without a copy", []store.Act{both}, nil, "12:00:00", ""},
	} {
		inTable, inCopy := unlike("payments", test.table, test.copies, noon.Add(time.Hour))
		for where, c := range map[string]struct {
			got  []string
			want string
		}{"table": {inTable, test.inTable}, "copy": {inCopy, test.inCopy}} {
			if got := strings.Join(c.got, " "); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("%s: only the %s has %q, want %q", test.why, where, got, c.want)
			}
		}
	}
}
