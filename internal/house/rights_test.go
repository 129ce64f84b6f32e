package house_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/remit-payouts/remit/internal/aws/kms/walletkey"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// TestRightsOnPartitions: mistakes that the local AWS does not show. A condition of all values holds for a request
// without any, so it comes with Null. A denial does not hold for one, so it guards nothing alone. A key of another stack
// is no business of this one.
func TestRightsOnPartitions(t *testing.T) {
	const keys = "dynamodb:LeadingKeys"
	policies := resources(t, "AWS::IAM::ManagedPolicy")
	var deployer node
	must.OK(t, json.Unmarshal(files(t)["tools/pipeline/deployer.json"], &deployer))
	policies["RemitDeployer"] = node{"Properties": node{"PolicyDocument": deployer}}
	for policy, r := range policies {
		for _, s := range statements(at[any](r, "Properties.PolicyDocument")) {
			like, unlike := at[any](s, "Condition.ForAllValues:StringLike."+keys), at[any](s, "Condition.ForAllValues:StringNotLike."+keys)
			writes := regexp.MustCompile("dynamodb:(Put|Update|Delete)Item").MatchString(fmt.Sprint(s["Action"])) && s["Effect"] == "Allow"
			guarded := writes && strings.Contains(fmt.Sprint(s["Resource"]), "PaymentsTable")
			if guarded && like == nil && unlike == nil || (like != nil || unlike != nil) && at[string](s, "Condition.Null."+keys) != "false" {
				t.Errorf("%s may %v in no partition, and so in each", policy, s["Action"])
			}
			if strings.Contains(fmt.Sprint(s["Condition"]), keys) && s["Effect"] == "Deny" && policy != "RemitReader" {
				t.Errorf("%s denies %v in partitions: grant it in the others", policy, s["Action"])
			}
			if policy != "RemitDeployer" && strings.HasPrefix(words(s["Action"])[0], "kms:") && fmt.Sprint(s["Resource"]) == "*" &&
				!strings.Contains(fmt.Sprint(s["Condition"]), walletkey.Tag+":AWS::StackName") {
				t.Errorf("%s may %v with the keys of other stacks", policy, s["Action"])
			}
		}
	}
}

// TestSigners: the functions that read wallets' keys are those whose reads ring no alarm, and that keys in KMS are granted to.
func TestSigners(t *testing.T) {
	want, role := slices.Sorted(slices.Values(walletkey.SigningRoles())), regexp.MustCompile(`\w+FunctionRole`)
	named := map[string][]string{}
	for id, r := range resources(t, "AWS::IAM::Role") {
		if slices.Contains(words(at[any](r, "Properties.ManagedPolicyArns")), "SignForWallets") {
			named["SignForWallets"] = append(named["SignForWallets"], id)
		}
	}
	for _, id := range []string{"WalletKeyReads", "RemitKeys"} {
		named[id] = role.FindAllString(fmt.Sprint(resources(t, "")[id]), -1)
	}
	for what, roles := range named {
		if slices.Sort(roles); !slices.Equal(slices.Compact(roles), want) {
			t.Errorf("%s is about %v, and %v sign", what, roles, want)
		}
	}
	if len(named) != 3 {
		t.Error("no role signs")
	}
}

// TestSchedules: the role of the schedules may start each scheduled function at its alias and none else, and only the next
// minute repeats a failed start. The local AWS starts functions without a right.
func TestSchedules(t *testing.T) {
	var scheduled, may []string
	for id, r := range resources(t, "AWS::Serverless::Function") {
		for _, e := range at[node](r, "Properties.Events") {
			if at[string](e, "Type") != "ScheduleV2" {
				continue
			}
			scheduled = append(scheduled, "${"+id+".Arn}:live")
			if tries := at[any](r, "Properties.EventInvokeConfig.MaximumRetryAttempts"); tries != 0 ||
				at[any](e, "Properties.RetryPolicy.MaximumRetryAttempts") != 0 || at[string](e, "Properties.RoleArn") != "ScheduleRole.Arn" {
				t.Errorf("%s is started by %v, and again %v times", id, at[any](e, "Properties"), tries)
			}
		}
	}
	for _, s := range statements(at[any](readTemplate(t), "Resources.ScheduleRole.Properties.Policies")) {
		if slices.Contains(words(s["Action"]), "lambda:InvokeFunction") {
			may = append(may, words(s["Resource"])...)
		}
	}
	slices.Sort(scheduled)
	if slices.Sort(may); len(may) == 0 || !slices.Equal(may, scheduled) {
		t.Errorf("the schedules may start %v, and start %v", may, scheduled)
	}
}
