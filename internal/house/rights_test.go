package house_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/remit-payouts/remit/internal/aws/kms/walletkey"
)

// TestPeoplesRights: two mistakes in the policies for people that the local AWS does not show. A condition of all values
// holds for a request without any, so it comes with Null. A key of another stack is no business of this one.
func TestPeoplesRights(t *testing.T) {
	const keys = "dynamodb:LeadingKeys"
	for policy, r := range resources(t, "AWS::IAM::ManagedPolicy") {
		for _, s := range statements(at[any](r, "Properties.PolicyDocument")) {
			if at[any](s, "Condition.ForAllValues:StringLike."+keys) != nil && at[string](s, "Condition.Null."+keys) != "false" {
				t.Errorf("%s may %v in no partition, and so in each", policy, s["Action"])
			}
			if strings.HasPrefix(words(s["Action"])[0], "kms:") && fmt.Sprint(s["Resource"]) == "*" &&
				!strings.Contains(fmt.Sprint(s["Condition"]), walletkey.Tag+":AWS::StackName") {
				t.Errorf("%s may %v with the keys of other stacks", policy, s["Action"])
			}
		}
	}
}
