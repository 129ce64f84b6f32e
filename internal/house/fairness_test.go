package house_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/remit-payouts/remit/internal/cli/plan"
)

// shares has the concurrency that a flood of requests can take of the account, for every function:
// the rate of its methods, if the function answers in a time of its own; or the concurrency that
// Size reserves for it, if clients, their servers or nodes decide its time.
var shares = map[string]struct{ rate, reserved string }{
	"authorizer":     {"", "[Reserves [Concurrency Size Authorizer] AWS::NoValue]"}, // asked before the methods' rates count
	"check-receipts": {"", "[Reserves [Concurrency Size CheckReceipts] AWS::NoValue]"},
	"refill-wallets": {"", ""}, // a minute is longer than it runs
	"send-payment":   {"[Rates Size Api]", "[Reserves [Concurrency Size SendPayment] AWS::NoValue]"},
	"send-payments":  {"[Rates Size Api]", "[Reserves [Concurrency Size SendPayments] AWS::NoValue]"},
	"get-balance":    {"[Rates Size Balance]", "[Reserves 20 AWS::NoValue]"},
	"create-webhook": {"[Rates Size Webhook]", "[Reserves 5 AWS::NoValue]"}, // looks up the URL's name
	"update-webhook": {"[Rates Size Webhook]", "[Reserves 5 AWS::NoValue]"},
	"test-webhook":   {"[Rates Size Webhook]", "[Reserves 10 AWS::NoValue]"},

	"deliver-webhook": {"", ""}, // its event source has a MaximumConcurrency

	"get-transaction":       {"[Rates Size Api]", ""}, // one read
	"list-api-keys":         {"[Rates Size List]", ""},
	"list-deliveries":       {"[Rates Size List]", ""},
	"list-recipients":       {"[Rates Size List]", ""},
	"list-transactions":     {"[Rates Size List]", ""},
	"list-webhooks":         {"[Rates Size List]", ""},
	"create-api-key":        {"1", ""},
	"issue-api-key":         {"[Rates Size Change]", ""},
	"rotate-api-key":        {"[Rates Size Change]", ""},
	"revoke-api-key":        {"[Rates Size Change]", ""},
	"create-recipient":      {"[Rates Size Change]", ""},
	"delete-recipient":      {"[Rates Size Change]", ""},
	"delete-webhook":        {"[Rates Size Change]", ""},
	"rotate-webhook-secret": {"[Rates Size Change]", ""},
	"resend-delivery":       {"[Rates Size Change]", ""},
}

// TestOneMerchantCannotStarveTheOthers: every function has its row in shares, every
// method a bucket of its own, and every function behind a queue a limit of its batches.
func TestOneMerchantCannotStarveTheOthers(t *testing.T) {
	rates := map[string]string{}
	for _, s := range at[[]any](resources(t, "AWS::Serverless::Api")["Api"], "Properties.MethodSettings") {
		path := strings.ReplaceAll(strings.TrimPrefix(at[string](s, "ResourcePath"), "/"), "~1", "/")
		rates[at[string](s, "HttpMethod")+" "+path] = fmt.Sprint(at[any](s, "ThrottlingRateLimit"))
		if at[any](s, "ThrottlingBurstLimit") == nil {
			t.Errorf("%s has a rate and no burst, which would be the account's", path)
		}
	}
	deployed := functions(t)
	for name, f := range deployed {
		want, ok := shares[name]
		if !ok {
			t.Errorf("%s has no row in shares: say what a flood of requests can make of it", name)
		}
		reserved := ""
		if v := f["ReservedConcurrentExecutions"]; v != nil {
			reserved = fmt.Sprint(v)
		}
		if reserved != want.reserved {
			t.Errorf("%s reserves %q, want %q", name, reserved, want.reserved)
		}
		for _, e := range at[node](f, "Events") {
			switch at[string](e, "Type") {
			case "Api":
				route := strings.ToUpper(at[string](e, "Properties.Method")) + " " + at[string](e, "Properties.Path")
				if rates[route] != want.rate || want.rate == "" {
					t.Errorf("%s has the rate %q in MethodSettings, want %q", route, rates[route], want.rate)
				}
				delete(rates, route)
			case "SQS":
				if at[any](e, "Properties.ScalingConfig.MaximumConcurrency") == nil {
					t.Errorf("%s takes as many batches at once as there are", name)
				}
			}
		}
	}
	if delete(rates, "* *"); len(rates) > 0 || len(shares) != len(deployed) { // the rest, of which there is none
		t.Errorf("MethodSettings without a route: %v; %d functions, %d rows", rates, len(deployed), len(shares))
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
