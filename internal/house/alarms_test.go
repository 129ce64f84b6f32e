package house_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/aws/emf"
	"github.com/remit-payouts/remit/internal/aws/emf/runreport"
	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/payments/dispatch"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/settlement"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// A payer answers every payment with an error.
type payer struct{ error }

func (p payer) Send(context.Context, payment.Request) (dispatch.Result, error) {
	return dispatch.Result{}, p.error
}

// rings maps each alarm to the reason why our metric crosses its threshold, in one of its periods.
// The lines are those of the code that the functions run.
var rings = map[string]func(*emf.Meter){
	"SettlementStoppedAlarm":  func(*emf.Meter) {}, // its silence rings
	"OldestPendingAlarm":      ran(settlement.Report{Oldest: 901 * time.Second}),
	"NonceConsumedAlarm":      ran(settlement.Report{Suspect: 1}),
	"SettingsUnusableAlarm":   ran(settlement.Report{Unruled: 1}),
	"UnreadableAlarm":         ran(settlement.Report{Unreadable: 1}),
	"SendPaymentErrorsAlarm":  answers(1, errors.New("unexpected")),
	"SendPaymentsErrorsAlarm": answers(1, errors.Join(dispatch.ErrInProgress, dispatch.ErrCommit)),
	"WalletPausedAlarm":       ran(settlement.Report{Paused: 1}),
	"WalletsLowAlarm": ran(settlement.Report{Funding: []uint64{2},
		Wallets: []settlement.Funds{{Balance: token.Units(99_999_999), Gas: token.Units(1e18)}}}),
	"PaymentsFailedAlarm": ran(settlement.Report{Confirmed: 8, Failed: 1}),
	"NodesSilentAlarm":    func(m *emf.Meter) { runreport.AddNodes(m, []chain.Health{{Node: "a", Silent: true}}) },
}

// ran meters a run of check-receipts.
func ran(r settlement.Report) func(*emf.Meter) {
	return func(m *emf.Meter) {
		runreport.Add(m, r, runreport.Of{Decimals: 6, TokenLow: 100, GasLowGwei: 2_000_000})
	}
}

// answers meters n requests to send-payment that end with err.
func answers(n int, err error) func(*emf.Meter) {
	return func(m *emf.Meter) {
		send := httpapi.SendPayment(payer{err}, nil, token.Token{}).Metered(m, "send-payment:1")
		for range n {
			r := httptest.NewRequest(http.MethodPost, "/send-payment",
				strings.NewReader(`{"to":"0x2222222222222222222222222222222222222222","amount":1}`))
			r.Header.Set("Content-Type", "application/json")
			send.ServeHTTP(httptest.NewRecorder(), r.WithContext(apikey.WithPrincipal(r.Context(),
				apikey.Principal{MerchantID: "mer_1", Grant: apikey.Full()})))
		}
	}
}

// noFaults are answers that no new version of the code would change.
var noFaults = map[string]error{
	"a duplicate of a request that is alive": dispatch.ErrDuplicate,
	"a payment that waits for an operator":   dispatch.ErrWaiting,
	"a full window":                          fmt.Errorf("%w: %w", dispatch.ErrUnavailable, wallet.ErrCeiling),
	"wallets without ether":                  fmt.Errorf("%w: %w", dispatch.ErrUnavailable, wallet.ErrGas),
	"wallets without coins":                  dispatch.ErrInsufficient,
	"nodes that do not answer":               errors.Join(dispatch.ErrUnavailable, chain.ErrUnavailable),
	"settings that are not usable":           errors.Join(dispatch.ErrUnavailable, settings.ErrMissing),
}

// measured has AWS's metrics with their documented dimensions.
var measured = map[string][]string{
	"AWS/ApiGateway 5XXError": {"ApiName Stage"}, "AWS/Lambda Errors": {"FunctionName Resource ExecutedVersion"}, "AWS/Lambda Throttles": {""},
	"AWS/Events TriggeredRules": {"RuleName"}, "AWS/DynamoDB WriteThrottleEvents": {"TableName"},
	"AWS/SQS ApproximateNumberOfMessagesVisible": {"QueueName"}, "AWS/SQS ApproximateAgeOfOldestMessage": {"QueueName"},
}

// TestEveryAlarmRings: each alarm of the template watches a metric of AWS, or one of ours that
// crosses the threshold when the alarm's reason occurs, and never otherwise.
func TestEveryAlarmRings(t *testing.T) {
	left := len(rings)
	defaults := at[node](readTemplate(t), "Parameters")
	for name, r := range resources(t, "AWS::CloudWatch::Alarm") {
		p := at[node](r, "Properties")
		namespace, metric, dimensions := at[string](p, "Namespace"), at[string](p, "MetricName"), []string{}
		for _, d := range at[[]any](p, "Dimensions") {
			dimensions = append(dimensions, at[string](d, "Name"))
		}
		if namespace != "Remit" {
			if !slices.Contains(measured[namespace+" "+metric], strings.Join(dimensions, " ")) {
				t.Errorf("%s: AWS does not measure %s %s by %v", name, namespace, metric, dimensions)
			}
			continue
		}
		threshold, ok := p["Threshold"].(int)
		if parameter, named := p["Threshold"].(string); named {
			threshold, ok = defaults[parameter].(node)["Default"].(int)
		}
		ring := rings[name]
		if left--; ring == nil || !ok {
			t.Errorf("%s: nothing says how it rings, or its threshold is no number", name)
			continue
		}
		crosses := func(did func(*emf.Meter)) bool {
			var out bytes.Buffer
			m := emf.New(&out, "remit", time.Now)
			did(m)
			must.OK(t, m.Flush())
			value, found := statistic(t, out.Bytes(), metric, dimensions, at[string](p, "Statistic"))
			if !found {
				return p["TreatMissingData"] == "breaching"
			}
			return (value > float64(threshold)) == (p["ComparisonOperator"] == "GreaterThanThreshold") && value != float64(threshold)
		}
		if !crosses(ring) {
			t.Errorf("%s does not ring", name)
		}
		if crosses(func(m *emf.Meter) {
			ran(settlement.Report{Confirmed: 9, Funding: []uint64{3},
				Wallets: []settlement.Funds{{Balance: token.Units(100_000_000), Gas: token.Units(2_000_000e9)}}})(m)
			m.Add("ScheduledRuns", emf.Count, 1)
		}) {
			t.Errorf("%s rings when all is well", name)
		}
		for what, err := range noFaults {
			if name != "SettlementStoppedAlarm" && crosses(answers(6, err)) {
				t.Errorf("%s rings for %s", name, what)
			}
		}
	}
	if left != 0 {
		t.Errorf("template.yaml lacks %d of the alarms that ring", left)
	}
}

// statistic computes a metric with these dimensions from lines of the log, as CloudWatch does of one period.
func statistic(t *testing.T, lines []byte, metric string, dimensions []string, of string) (value float64, found bool) {
	t.Helper()
	var values []float64
	for decoder := json.NewDecoder(bytes.NewReader(lines)); decoder.More(); {
		var line map[string]any
		must.OK(t, decoder.Decode(&line))
		directive := line["_aws"].(map[string]any)["CloudWatchMetrics"].([]any)[0].(map[string]any)
		if !slices.Equal(words(directive["Dimensions"].([]any)[0]), dimensions) { // of a node, a wallet or a code
			continue
		}
		switch v := line[metric].(type) {
		case float64:
			values = append(values, v)
		case []any:
			for _, x := range v {
				values = append(values, x.(float64))
			}
		}
	}
	if len(values) == 0 {
		return 0, false
	}
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	switch of {
	case "Sum":
		return sum, true
	case "Average":
		return sum / float64(len(values)), true
	case "Minimum":
		return slices.Min(values), true
	case "Maximum":
		return slices.Max(values), true
	}
	t.Fatalf("no statistic %q", of)
	return 0, false
}
