package house_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/aws/kms/walletkey"
)

// TestPeoplesRights: the policies for people name the partitions, roles and functions that the code names. A condition
// of all values holds for a request without any, so it comes with Null.
func TestPeoplesRights(t *testing.T) {
	all, functions := resources(t, "AWS::IAM::ManagedPolicy"), []string{}
	for id := range resources(t, "AWS::Serverless::Function") {
		functions = append(functions, "${"+id+".Arn}*")
	}
	const keys = "dynamodb:LeadingKeys"
	like, unlike, some := "Condition.ForAllValues:StringLike."+keys, "Condition.ForAllValues:StringNotLike."+keys,
		"Condition.ForAnyValue:StringEquals."+keys
	audit, rules, signers := []string{dynamo.AuditPartition}, dynamo.SettingsPartitions(), walletkey.SigningRoles()
	for i := range signers {
		signers[i] += ".Arn"
	}
	for _, row := range []struct {
		policy, action, path string
		want                 []string
	}{
		{"RemitReader", "dynamodb:DeleteItem dynamodb:UpdateItem", some, audit},
		{"RemitOperator", "dynamodb:PutItem", like, audit},
		{"RemitOperator", "dynamodb:DeleteItem dynamodb:PutItem dynamodb:UpdateItem", unlike,
			slices.Concat(audit, rules, []string{dynamo.CoinPartition})},
		{"RemitSettings", "dynamodb:PutItem", like, slices.Concat(audit, rules)},
		{"RemitSettings", "dynamodb:DeleteItem", like, rules},
		{"RemitKeys", "dynamodb:PutItem", like, append(audit, "wallets#${ChainId}")},
		{"RemitKeys", "kms:CreateGrant", "Condition.StringEquals.kms:GranteePrincipal", signers},
		{"RemitReleaser", "dynamodb:PutItem", like, audit},
		{"RemitReleaser", "lambda:GetAlias lambda:UpdateAlias", "Resource", functions},
	} {
		for action := range strings.FieldsSeq(row.action) {
			var got []string
			for _, s := range statements(at[any](all[row.policy], "Properties.PolicyDocument")) {
				if slices.Contains(words(s["Action"]), action) {
					got = append(got, words(at[any](s, row.path))...)
				}
				if at[any](s, like) != nil && at[string](s, "Condition.Null."+keys) != "false" {
					t.Errorf("%s may %v in no partition, and so in each", row.policy, s["Action"])
				}
			}
			slices.Sort(got)
			if want := slices.Sorted(slices.Values(row.want)); !slices.Equal(got, want) {
				t.Errorf("%s may %s: %s names %v, want %v", row.policy, action, row.path, got, want)
			}
		}
	}
	for policy := range all {
		for _, s := range statements(at[any](all[policy], "Properties.PolicyDocument")) {
			if keys := strings.HasPrefix(words(s["Action"])[0], "kms:"); keys && fmt.Sprint(s["Resource"]) == "*" &&
				!strings.Contains(fmt.Sprint(s["Condition"]), walletkey.Tag+":AWS::StackName") {
				t.Errorf("%s may %v with the keys of other stacks", policy, s["Action"])
			}
		}
	}
}
