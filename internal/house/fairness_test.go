package house_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/remit-payouts/remit/internal/cli/plan"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// reserved are the functions whose time clients, their servers or nodes decide: the concurrency that each has to
// itself is the most that a flood of requests can make of it. The authorizer is asked before the methods' rates
// count. Of the others a method's rate is enough, since they answer after a read or two.
const reserved = "authorizer check-receipts send-payment send-payments get-balance create-webhook update-webhook test-webhook"

// TestOneMerchantCannotStarveTheOthers: every method has a bucket of its own, and every
// function behind a queue a limit of its batches.
func TestOneMerchantCannotStarveTheOthers(t *testing.T) {
	throttled := map[string]bool{"* *": true} // the rest, of which there is none
	for _, s := range at[[]any](resources(t, "AWS::Serverless::Api")["Api"], "Properties.MethodSettings") {
		path := strings.ReplaceAll(strings.TrimPrefix(at[string](s, "ResourcePath"), "/"), "~1", "/")
		throttled[at[string](s, "HttpMethod")+" "+path] = at[any](s, "ThrottlingRateLimit") != nil
		if at[any](s, "ThrottlingBurstLimit") == nil {
			t.Errorf("%s has a rate and no burst, which would be the account's", path)
		}
	}
	for size, of := range at[node](readTemplate(t), "Mappings.Concurrency") {
		sum := 0
		for _, f := range functions(t) {
			if r, reserves := f["ReservedConcurrentExecutions"].([]any); reserves && size != "sandbox" {
				n := r[1]
				if mapped, is := n.([]any); is {
					n = at[any](of, fmt.Sprint(mapped[2]))
				}
				sum += must.Get(strconv.Atoi(fmt.Sprint(n)))(t)
			}
		}
		if all := fmt.Sprint(at[any](of, "All")); all != fmt.Sprint(sum) {
			t.Errorf("size %s: All is %s, and the functions reserve %d", size, all, sum)
		}
	}
	for name, f := range functions(t) {
		if got := fmt.Sprint(f["ReservedConcurrentExecutions"]); strings.HasPrefix(got, "[Reserves ") != has(reserved, name) {
			t.Errorf("%s reserves %s", name, got)
		}
		for _, e := range at[node](f, "Events") {
			route := strings.ToUpper(at[string](e, "Properties.Method")) + " " + at[string](e, "Properties.Path")
			if at[string](e, "Type") == "Api" && !throttled[route] {
				t.Errorf("%s has no rate in MethodSettings", route)
			}
			if at[string](e, "Type") == "SQS" && at[any](e, "Properties.ScalingConfig.MaximumConcurrency") == nil {
				t.Errorf("%s takes as many batches at once as there are", name)
			}
		}
	}
}

// TestPlanKnowsTheSize: remit plan and the template have the same Size=small.
func TestPlanKnowsTheSize(t *testing.T) {
	mappings := at[node](readTemplate(t), "Mappings")
	for name, want := range plan.Small {
		got := at[any](mappings, "Rates.small."+name)
		if got == nil {
			got = at[any](mappings, "Concurrency.small."+name)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s is %v in the template, %v in the plan", name, got, want)
		}
	}
}
