package house_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/lambdacontext"
	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/aws/boot"
	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/aws/emf"
	"github.com/remit-payouts/remit/internal/aws/emf/runreport"
	"github.com/remit-payouts/remit/internal/aws/secrets"
	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
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

// rings maps each alarm of our metrics to the reason why one crosses its threshold, in a period.
// The lines are those of the code that the functions run.
var rings = map[string]func(*emf.Meter){
	"SettlementStoppedAlarm":  func(*emf.Meter) {}, // its silence rings
	"ReleasesStoppedAlarm":    func(*emf.Meter) {},
	"OldestPendingAlarm":      ran(settlement.Report{Oldest: 901 * time.Second}),
	"NonceConsumedAlarm":      ran(settlement.Report{Suspect: 1}),
	"SettingsUnusableAlarm":   ran(settlement.Report{Unruled: 1}),
	"UnreadableAlarm":         ran(settlement.Report{Unreadable: 1}),
	"SendPaymentErrorsAlarm":  answers(1, errors.New("unexpected")),
	"SendPaymentsErrorsAlarm": answers(1, errors.Join(dispatch.ErrInProgress, dispatch.ErrCommit)),
	"RequestsFailedAlarm":     answers(1, errors.New("unexpected")),
	"DynamoDBThrottlesAlarm": refused("ThrottlingException", func(cfg aws.Config) error {
		return must.Err(dynamo.NewAPIKeys(dynamo.Client(cfg), "keys").Find(context.Background(), [32]byte{}))
	}),
	"KeyErrorsAlarm": refused("InternalServiceError", func(cfg aws.Config) error {
		read := secrets.Open(cfg, "rpc", time.Now, func([]byte) (int, error) { return 0, nil })
		return must.Err(read.Get(context.Background()))
	}),
	"WalletPausedAlarm": ran(settlement.Report{Paused: 1}),
	"WalletsLowAlarm": ran(settlement.Report{Confirmed: perMinute, Funding: []uint64{2},
		Wallets: []settlement.Funds{{Balance: token.Units(99_999_999), Gas: token.Units(1e18)}}}),
	"PaymentsFailedAlarm": ran(settlement.Report{Confirmed: 8, Failed: 1}),
	"NodesSilentAlarm":    func(m *emf.Meter) { runreport.AddNodes(m, []chain.Health{{Node: "a", Silent: true}}) },
}

func ran(r settlement.Report) func(*emf.Meter) {
	return func(m *emf.Meter) {
		runreport.Add(m, settlement.Account{Report: r, Config: stack.Config{Token: token.Token{Decimals: 6}, Live: true}})
	}
}

// answers meters n requests to send-payment that end with err.
func answers(n int, err error) func(*emf.Meter) {
	return func(m *emf.Meter) {
		send := httpapi.SendPayment(payer{err}, nil, func(context.Context) (stack.Assets, error) { return make(stack.Assets, 1), nil }).
			Metered(m, "send-payment:1")
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
var measured = map[string]string{
	"AWS/ApiGateway 5XXError": "ApiName Stage", "AWS/Lambda Errors": "FunctionName Resource ExecutedVersion",
	"AWS/Lambda Throttles": "FunctionName", "AWS/Events TriggeredRules": "RuleName",
	"AWS/SQS ApproximateNumberOfMessagesVisible": "QueueName", "AWS/SQS ApproximateAgeOfOldestMessage": "QueueName",
}

// Recorded periods of AWS's metrics: those that ring an alarm, and those that must not.
type recording struct{ rings, quiet []float64 }

var (
	none   = math.NaN() // no value in a period
	once   = recording{[]float64{1}, []float64{none}}
	twice  = recording{[]float64{1, none, none, none, 1}, []float64{none, 9, none, 0, none}}
	thrice = recording{[]float64{1, 0, 1, 0, 1}, []float64{9, 0, 0, 0, 9}} // 0: a minute with requests alone
)

// perMinute is how many of 10 million payments a month are made in a minute. With two requests for each of them, busy
// has one answer 503 in each minute: one is 1, the others 0.
const perMinute = 231

var busy = slices.Repeat([]float64{1.0 / (2 * perMinute)}, 5)

// late is the age of a job five minutes after the longest delay: SQS counts it from sending.
var late = (webhook.QueueLimit + 5*time.Minute).Seconds()

var recorded = map[string]recording{
	"ApiServerErrorsAlarm": {[]float64{0.05, 0, 0.05, none, 0.05}, busy},
	"WalletKeyReadAlarm":   once, "DeploymentFailedAlarm": once,
	"AuthorizerCrashesAlarm": twice, "SendPaymentCrashesAlarm": twice, "SendPaymentsCrashesAlarm": twice, "CheckReceiptsCrashesAlarm": twice,
	"ReleaseProposalsCrashesAlarm": twice, "AuthorizerThrottlesAlarm": thrice, "SendPaymentThrottlesAlarm": thrice,
	"WebhookQueueAgeAlarm":    {slices.Repeat([]float64{late + 1}, 5), []float64{late + 1, late + 1, late + 1, late + 1, late}},
	"WebhookDeadLettersAlarm": {[]float64{1}, []float64{0}},
}

// rung reports whether an alarm is in ALARM after these periods, as CloudWatch decides.
func rung(p node, threshold float64, periods []float64) bool {
	of := at[int](p, "EvaluationPeriods")
	needs, breaches := cmp.Or(at[int](p, "DatapointsToAlarm"), of), 0
	for _, v := range periods[len(periods)-of:] {
		breach := v > threshold
		if p["ComparisonOperator"] == "LessThanThreshold" {
			breach = v < threshold
		}
		if math.IsNaN(v) {
			breach = p["TreatMissingData"] == "breaching"
		}
		if breach {
			breaches++
		}
	}
	return breaches >= needs
}

// TestEveryAlarmRings: each alarm of the template watches a metric of AWS or of ours that rings it when the alarm's
// reason occurs, and otherwise never.
func TestEveryAlarmRings(t *testing.T) {
	left := len(rings) + len(recorded)
	for name, r := range resources(t, "AWS::CloudWatch::Alarm") {
		p := at[node](r, "Properties")
		namespace, metric, dimensions := at[string](p, "Namespace"), at[string](p, "MetricName"), []string{}
		for _, d := range at[[]any](p, "Dimensions") {
			dimensions = append(dimensions, at[string](d, "Name"))
			if of, is := strings.CutSuffix(at[string](d, "Value"), "Function"); is && !strings.HasPrefix(name, of) {
				t.Errorf("%s watches %sFunction", name, of)
			}
		}
		threshold := must.Get(strconv.ParseFloat(fmt.Sprint(p["Threshold"]), 64))(t)
		left--
		if of, known := recorded[name]; known {
			if measured[namespace+" "+metric] != strings.Join(dimensions, " ") {
				t.Errorf("%s: AWS does not measure %s %s by %v", name, namespace, metric, dimensions)
			}
			if !rung(p, threshold, of.rings) || rung(p, threshold, of.quiet) {
				t.Errorf("%s rings for %v: %t, for %v: %t", name, of.rings, rung(p, threshold, of.rings), of.quiet, rung(p, threshold, of.quiet))
			}
			continue
		}
		if rings[name] == nil {
			t.Errorf("nothing says how %s rings: add it to rings in internal/house/alarms_test.go", name)
			continue
		}
		periods, needs := at[int](p, "EvaluationPeriods"), at[int](p, "DatapointsToAlarm")
		if p["TreatMissingData"] == "breaching" && (at[int](p, "Period") != 60 || periods != 5) {
			// https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarms-and-missing-data.html
			t.Errorf("%s waits for more than five minutes: CloudWatch uses older periods instead of missing ones", name)
		}
		crosses := func(did func(*emf.Meter), of int) bool {
			var out bytes.Buffer
			m := emf.New(&out, "remit", time.Now)
			did(m)
			must.OK(t, m.Flush())
			value := statistic(t, append(out.Bytes(), refusals.Bytes()...), metric, dimensions, at[string](p, "Statistic"))
			return rung(p, threshold, append(slices.Repeat([]float64{none}, periods-of), slices.Repeat([]float64{value}, of)...))
		}
		if !crosses(rings[name], periods) || needs > 0 && (!crosses(rings[name], needs) || crosses(rings[name], needs-1)) {
			t.Errorf("%s does not ring, or too soon", name)
		}
		refusals.Reset()
		if crosses(func(m *emf.Meter) { // a sandbox with a faucet's 20 tokens, and a stack that is well
			funds := []settlement.Funds{{Balance: token.Units(20_000_000), Gas: token.Units(2_000_000e9)}}
			runreport.Add(m, settlement.Account{Report: settlement.Report{Confirmed: perMinute, Wallets: funds},
				Config: stack.Config{Token: token.Token{Decimals: 6}}})
			ran(settlement.Report{Confirmed: perMinute, Funding: []uint64{3},
				Wallets: []settlement.Funds{{Balance: token.Units(100_000_000), Gas: token.Units(2_000_000e9)}}})(m)
			m.Add("ScheduledRuns", 1)
			m.Add("OldestProposal", 0)
		}, periods) {
			t.Errorf("%s rings when all is well", name)
		}
		for what, err := range noFaults {
			if !strings.HasSuffix(name, "StoppedAlarm") && crosses(answers(6, err), periods) {
				t.Errorf("%s rings for %s", name, what)
			}
		}
	}
	if left != 0 {
		t.Errorf("rings and template.yaml differ by %d alarms", left)
	}
	if sum := (node{"EvaluationPeriods": 5, "DatapointsToAlarm": 3}); !rung(sum, 0, busy) {
		t.Error("more than no 5XX in a minute would not ring for ever under 10 million payments a month")
	}
}

// refusals are lines of calls that AWS refused.
var refusals bytes.Buffer

// refused has AWS refuse a call: its answers have the code, and call makes one of a service.
func refused(code string, call func(aws.Config) error) func(*emf.Meter) {
	return func(*emf.Meter) {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = fmt.Fprintf(w, `{"__type":%q,"message":"%s [None, %s]"}`, "x#"+strings.Fields(code)[0], "why", code)
		}))
		defer server.Close()
		defer slog.SetDefault(slog.Default())
		slog.SetDefault(slog.New(slog.NewJSONHandler(&refusals, &slog.HandlerOptions{ReplaceAttr: lambdacontext.ReplaceAttr})))
		refusals.Reset()
		cfg := boot.OpenWith(func(name string) string {
			return map[string]string{"AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "AKID",
				"AWS_SECRET_ACCESS_KEY": "secret", "STACK": "remit", "AWS_ENDPOINT_URL": server.URL}[name]
		}).AWS
		cfg.Retryer = func() aws.Retryer { return aws.NopRetryer{} }
		_ = call(cfg)
	}
}

// statistic computes a metric with these dimensions from lines of the log, as CloudWatch does of one period.
func statistic(t *testing.T, lines []byte, metric string, dimensions []string, of string) float64 {
	t.Helper()
	var values []float64
	for decoder := json.NewDecoder(bytes.NewReader(lines)); decoder.More(); {
		var line map[string]any
		must.OK(t, decoder.Decode(&line))
		if line["_aws"] == nil {
			continue
		}
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
		return none
	}
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	switch of {
	case "Sum":
		return sum
	case "Average":
		return sum / float64(len(values))
	case "Minimum":
		return slices.Min(values)
	case "Maximum":
		return slices.Max(values)
	}
	t.Fatalf("no statistic %q", of)
	return none
}

// platform has the words of lines that Lambda, its runtime for Go and Logs Insights write beside ours.
const platform = `"record":{"status":"timeout"} "message":"{\"errorMessage\":\"x\"}" @timestamp @logStream bin(1m) level "ERROR" err`

var (
	query = regexp.MustCompile("`insights ([A-Z][a-z]+) 'filter ([^|]+?) \\| (?:fields|stats count\\(\\*\\) by) ([^|']+)'`")
	term  = regexp.MustCompile(`^(?:ispresent\((\S+)\)|(\S+) (?:= "(.*)"|like /\^?(.*)/|in \["(.*)"\]))$`)
)

// TestAlarmPagesHaveQueries: each page has one query of Logs Insights, of a log group of the stack, whose fields and
// values are words of the functions' code, of the access log, or of lines that Lambda writes.
func TestAlarmPagesHaveQueries(t *testing.T) {
	code := platform + at[string](readTemplate(t), "Resources.Api.Properties.AccessLogSetting.Format")
	product := regexp.MustCompile(`^(functions|internal/(aws|api|deployment|evm|merchants|payments))/.*\.go$`)
	for path, text := range files(t) {
		if product.MatchString(path) && !strings.HasSuffix(path, "_test.go") {
			code += string(text)
		}
	}
	for _, page := range names(t, "docs/alarms/*Alarm.md") {
		all := query.FindAllStringSubmatch(string(files(t)["docs/alarms/"+page+".md"]), -1)
		if len(all) != 1 || at[any](readTemplate(t), "Resources."+all[0][1]+"LogGroup") == nil {
			t.Errorf("docs/alarms/%s.md has the queries %q, and should have one of a log group", page, all)
			continue
		}
		fields, values := strings.Split(all[0][3], ", "), []string(nil)
		for _, condition := range strings.Split(all[0][2], " or ") {
			m := term.FindStringSubmatch(condition)
			if m == nil {
				t.Fatalf("%s: %s is not understood", page, condition)
			}
			fields = append(fields, m[1]+m[2])
			values = append(append(values, m[3]), strings.Split(m[5], `", "`)...)
			if !strings.Contains(code, m[4]) {
				t.Errorf("%s: no function writes %s", page, m[4])
			}
		}
		for _, field := range fields {
			name := field[strings.LastIndex(field, ".")+1:]
			if !regexp.MustCompile(`\b`+regexp.QuoteMeta(strings.TrimLeft(name, "@"))+`\b`).MatchString(code) && !strings.HasPrefix(name, "bin(") {
				t.Errorf("%s: no function writes the field %s", page, field)
			}
		}
		for _, value := range values {
			if value != "" && !strings.Contains(code, `"`+value+`"`) {
				t.Errorf("%s: no function writes %q", page, value)
			}
		}
	}
}

// TestTopicPolicy: EventBridge publishes to no topic whose statement for it has a condition
// (https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-use-resource-based.html). CloudWatch's needs one.
func TestTopicPolicy(t *testing.T) {
	var policy any
	_, text, _ := strings.Cut(string(files(t)["docs/deploy.md"]), "--attribute-name Policy --attribute-value '")
	must.OK(t, json.NewDecoder(strings.NewReader(text)).Decode(&policy))
	conditions := map[string]bool{}
	for _, s := range statements(policy) {
		for _, service := range words(at[any](s, "Principal.Service")) {
			conditions[service] = s["Condition"] != nil
		}
	}
	if want := map[string]bool{"cloudwatch.amazonaws.com": true, "events.amazonaws.com": false}; !maps.Equal(conditions, want) {
		t.Errorf("the statements of docs/deploy.md have conditions: %v, want %v", conditions, want)
	}
}
