package house_test

import (
	"encoding/json"
	"fmt"
	"regexp"
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
