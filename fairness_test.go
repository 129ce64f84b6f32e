package remit_test

import (
	"fmt"
	"strings"
	"testing"
)

// shares says, for every function, how much of the account's concurrency a flood of
// requests can make of it: the rate of its methods, all of whose requests it answers in
// a time of its own, and the concurrency that ReservedConcurrency gives it, which is
// also the most it takes, where the clients, their servers or the nodes decide its time.
var shares = map[string]struct{ rate, reserved string }{
	"authorizer":     {"", "[Reserves AuthorizerReserved AWS::NoValue]"}, // asked before the methods' rates count
	"check-receipts": {"", "[HasReserved CheckReceiptsReserved [Reserves [Concurrency SettleConcurrency Runs] AWS::NoValue]]"},
	"send-payment":   {"ApiRate", "[Reserves SendPaymentReserved AWS::NoValue]"},
	"get-balance":    {"BalanceRate", "[Reserves 20 AWS::NoValue]"},
	"create-webhook": {"WebhookRate", "[Reserves 5 AWS::NoValue]"}, // looks up the URL's name
	"update-webhook": {"WebhookRate", "[Reserves 5 AWS::NoValue]"},
	"test-webhook":   {"WebhookRate", "[Reserves 10 AWS::NoValue]"},

	"deliver-webhook": {"", ""}, // its event source has a MaximumConcurrency

	"get-transaction":       {"ApiRate", ""}, // one read
	"list-api-keys":         {"ListRate", ""},
	"list-deliveries":       {"ListRate", ""},
	"list-recipients":       {"ListRate", ""},
	"list-transactions":     {"ListRate", ""},
	"list-webhooks":         {"ListRate", ""},
	"create-api-key":        {"KeyCreationRate", ""},
	"issue-api-key":         {"ChangeRate", ""},
	"rotate-api-key":        {"ChangeRate", ""},
	"revoke-api-key":        {"ChangeRate", ""},
	"create-recipient":      {"ChangeRate", ""},
	"delete-recipient":      {"ChangeRate", ""},
	"delete-webhook":        {"ChangeRate", ""},
	"rotate-webhook-secret": {"ChangeRate", ""},
	"resend-delivery":       {"ChangeRate", ""},
}

// TestOneMerchantCannotStarveTheOthers: every function has its row in shares, every
// method a bucket of its own, and every function behind a queue a limit of its batches.
func TestOneMerchantCannotStarveTheOthers(t *testing.T) {
	rates := map[string]string{}
	for _, s := range at[[]any](resources(t, "AWS::Serverless::Api")["Api"], "Properties.MethodSettings") {
		path := strings.ReplaceAll(strings.TrimPrefix(at[string](s, "ResourcePath"), "/"), "~1", "/")
		rates[at[string](s, "HttpMethod")+" "+path] = at[string](s, "ThrottlingRateLimit")
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
