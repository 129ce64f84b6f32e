package emf_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/remit-payouts/remit/internal/aws/emf"
	"github.com/remit-payouts/remit/internal/aws/emf/runreport"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/settlement"
	"github.com/remit-payouts/remit/internal/proof/must"
)

func meter() (*emf.Meter, *bytes.Buffer) {
	var out bytes.Buffer
	return emf.New(&out, "remit-dev", func() time.Time { return time.UnixMilli(1767323045006) }), &out
}

func flushed(t *testing.T, m *emf.Meter, out *bytes.Buffer) string {
	t.Helper()
	must.OK(t, m.Flush())
	text := out.String()
	out.Reset()
	return text
}

func TestLine(t *testing.T) {
	m, out := meter()
	if got := flushed(t, m, out); got != "" {
		t.Errorf("nothing was written as %q", got)
	}
	m.Add("WalletsLow", 2)
	m.Add("OldestPending", 1.5)
	m.Add("OldestPending", 0)
	m.Add("NodesSilent")
	m.Add("Resent", 1)
	m.Add("Resent", 2)
	m.AddOf("Node", "a", "NodeErrors", 1)
	want := `{"OldestPending":[1.5,0],"Resent":3,"Stack":"remit-dev","WalletsLow":2,"_aws":{"CloudWatchMetrics":[{"Dimensions":[["Stack"]],` +
		`"Metrics":[{"Name":"OldestPending","Unit":"Seconds"},{"Name":"WalletsLow","Unit":"Count"}],"Namespace":"Remit"}],` +
		`"Timestamp":1767323045006}}` + "\n" + `{"Node":"a","NodeErrors":1,"Stack":"remit-dev"}` + "\n"
	if got := flushed(t, m, out); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := flushed(t, m, out); got != "" {
		t.Errorf("written twice: %q", got)
	}
}

func TestManyValues(t *testing.T) {
	m, out := meter()
	var wg sync.WaitGroup
	for range 250 {
		wg.Go(func() { m.Add("WalletsLow", 1) })
	}
	wg.Wait()
	m.Add("NodesSilent", 1)
	var sizes []int
	for line := range strings.Lines(flushed(t, m, out)) {
		var parsed struct{ WalletsLow []float64 }
		must.OK(t, json.Unmarshal([]byte(line), &parsed))
		sizes = append(sizes, len(parsed.WalletsLow))
	}
	if diff := cmp.Diff([]int{100, 100, 50}, sizes); diff != "" {
		t.Errorf("values per line (-want +got):\n%s", diff)
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("full") }

func TestUnwritable(t *testing.T) {
	m := emf.New(fullDisk{}, "remit-dev", time.Now)
	m.Add("A", 1)
	if err := m.Flush(); err == nil {
		t.Error("no error")
	}
	if err := m.Flush(); err != nil {
		t.Errorf("what could not be written is kept: %v", err)
	}
}

// everything writes every number there is, but for those of package boot.
func everything(t *testing.T) string {
	t.Helper()
	m, out := meter()
	amount := token.Units(1_234_567_890)
	runreport.Add(m, settlement.Report{
		Confirmed: 1, Failed: 2, Reservations: 3, Noops: 4, Bumps: 5, Resent: 6, Refused: 13, Unreadable: 7, Unruled: 1, Suspect: 8, Undecided: 9,
		Paused: 10, Pending: 11,
		Oldest: time.Minute, ToFinal: []time.Duration{1500 * time.Millisecond, time.Second},
		Spent: []settlement.Spent{{Fee: amount}, {Fee: amount}, {Noop: true, Fee: amount}},
		Wallets: []settlement.Funds{{Balance: amount, Gas: amount, Gap: 12},
			{Balance: token.Units(2_000_000_000), Gas: token.Units(3e9), Gap: 1}},
	}, runreport.Of{Asset: "USDC", Decimals: 6, GasLowGwei: 2})
	runreport.AddNodes(m, []chain.Health{{Node: "a", Missed: 14, Silent: true}, {Node: "b", Slowest: time.Second}, {Node: "c", Silent: true}})
	for _, name := range strings.Fields("ScheduledRuns OldestProposal RefillsRefused RequestsFailed " + // of the functions
		"Webhook2xx Webhook3xx Webhook4xx Webhook5xx WebhookNone WebhookDuration " + // of package webhook
		"WebhooksDelivered WebhooksExhausted WebhooksCancelled SecondsToDelivered WebhookOldestDue") {
		m.Add(name, 1)
	}
	m.AddOf("Code", "not_found", "Refusals", 1)
	return flushed(t, m, out)
}

func TestNumbers(t *testing.T) {
	got := map[string]any{}
	for line := range strings.Lines(everything(t)) {
		fields := map[string]any{}
		must.OK(t, json.Unmarshal([]byte(line), &fields))
		of := ""
		for _, dimension := range []string{"Asset", "Node", "Code"} {
			if name, ok := fields[dimension]; ok {
				of += dimension + " " + name.(string) + " "
			}
			delete(fields, dimension)
		}
		if fields["Stack"] != "remit-dev" || (fields["_aws"] == nil) == (of == "") {
			t.Errorf("only the stack has metrics, unlike %s", line)
		}
		delete(fields, "Stack")
		delete(fields, "_aws")
		for name, value := range fields {
			got[of+name] = value
		}
	}
	want := map[string]any{
		"ItemsUnreadable": 7.0, "SettingsUnusable": 1.0, "NoncesConsumed": 8.0, "WalletsPaused": 10.0, "OldestPending": 60.0, "WalletsLow": 1.0,
		"PaymentsFailedShare": 200.0 / 3, "NodesSilent": 2.0, "ScheduledRuns": 1.0, "OldestProposal": 1.0, "RefillsRefused": 1.0,
		"RequestsFailed":               1.0,
		"Asset USDC PaymentsConfirmed": 1.0, "Asset USDC PaymentsFailed": 2.0, "Asset USDC ReservationsFinished": 3.0, "Asset USDC Noops": 4.0,
		"Asset USDC FeeBumps": 5.0, "Asset USDC Resent": 6.0, "Asset USDC BroadcastsRefused": 13.0, "Asset USDC Undecided": 9.0,
		"Asset USDC PaymentsPending": 11.0, "Asset USDC SlowestToFinal": 1.5, "Asset USDC PaymentFees": 2.46913578,
		"Asset USDC NoopFees":     1.23456789,
		"Asset USDC PoorestToken": 1234.56789, "Asset USDC PoorestGas": 1.23456789, "Asset USDC NonceGap": 12.0,
		"Node a NodeErrors": 14.0, "Node b NodeLatency": 1000.0, "Code not_found Refusals": 1.0,
		"Webhook2xx": 1.0, "Webhook3xx": 1.0, "Webhook4xx": 1.0, "Webhook5xx": 1.0, "WebhookNone": 1.0, "WebhookDuration": 1.0,
		"WebhooksDelivered": 1.0, "WebhooksExhausted": 1.0, "WebhooksCancelled": 1.0, "SecondsToDelivered": 1.0, "WebhookOldestDue": 1.0,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("numbers (-want +got):\n%s", diff)
	}
}

func TestNothingHappened(t *testing.T) {
	m, out := meter()
	runreport.Add(m, settlement.Report{}, runreport.Of{Decimals: 6})
	runreport.AddNodes(m, []chain.Health{{Node: "a"}})
	if got := flushed(t, m, out); got != "" {
		t.Errorf("an idle run wrote %s", got)
	}
}

// TestTemplateNamesThem: each metric is watched by an alarm or on the dashboard, which watch no others and query fields
// that are written. The root's TestEveryAlarmRings holds the alarms.
func TestTemplateNamesThem(t *testing.T) {
	template := string(must.Get(os.ReadFile("../../../template.yaml"))(t))
	_, body, _ := strings.Cut(template, "DashboardBody: !Sub |\n")
	body, _, _ = strings.Cut(body, "\n\n")
	if err := json.Unmarshal([]byte(regexp.MustCompile(`\$\{[^}]*\}`).ReplaceAllString(body, "x")), &map[string]any{}); err != nil {
		t.Errorf("the dashboard's body is no JSON, which CloudWatch refuses: %v", err)
	}
	named := func(text, pattern string) map[string]bool {
		found := map[string]bool{}
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
			found[m[1]] = true
		}
		return found
	}
	written := everything(t)
	watched := named(template, `Namespace: Remit, MetricName: (\w+)`)
	maps.Copy(watched, named(body, `\["(?:Remit|\.)", "(Oldest\w+)"`))
	metrics := named(written, `"Name":"(\w+)"`)
	metrics["CallsThrottled"], metrics["KeyErrors"] = true, true // package boot
	if diff := cmp.Diff(metrics, watched); diff != "" {
		t.Errorf("metrics that are written and not watched, and the other way round (-written +watched):\n%s", diff)
	}
	queries := strings.Join(regexp.MustCompile(`SOURCE '[^"]*"`).FindAllString(body, -1), "\n")
	queried := named(queries, `\b(?:sum\(|min\(|max\(|ispresent\(|by )(\w+)`)
	delete(queried, "bin")
	if len(queried) < 20 {
		t.Errorf("the dashboard queries only %v", queried)
	}
	for name := range queried {
		if !strings.Contains(written, `"`+name+`":`) {
			t.Errorf("the dashboard queries %s, which nothing writes", name)
		}
	}
}
