package emf_test

import (
	"bytes"
	"encoding/json"
	"flag"
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
	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/settlement"
	"github.com/remit-payouts/remit/internal/proof/must"
)

var update = flag.Bool("update", false, "rewrite the golden file")

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

// TestManyValues: from many goroutines, a metric keeps each value.
func TestManyValues(t *testing.T) {
	m, out := meter()
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() { m.Add("WalletsLow", 1) })
	}
	wg.Wait()
	var parsed struct{ WalletsLow []float64 }
	must.OK(t, json.Unmarshal([]byte(flushed(t, m, out)), &parsed))
	if len(parsed.WalletsLow) != 32 {
		t.Errorf("wrote %v", parsed.WalletsLow)
	}
}

// everything writes every number there is, but for those of package boot.
func everything(t *testing.T) string {
	t.Helper()
	m, out := meter()
	amount := token.Units(1_234_567_890)
	runreport.Add(m, settlement.Account{Report: settlement.Report{
		Confirmed: 1, Failed: 2, Reservations: 3, Noops: 4, Bumps: 5, Resent: 6, Refused: 13, Unreadable: 7, Unruled: 1, Suspect: 8, Undecided: 9,
		Paused: 10, Pending: 11, Funding: []uint64{1, 100},
		Oldest: time.Minute, ToFinal: []time.Duration{1500 * time.Millisecond, time.Second},
		Spent: []settlement.Spent{{Fee: amount}, {Fee: amount}, {Noop: true, Fee: amount}},
		Wallets: []settlement.Funds{{Balance: amount, Gas: amount, Gap: 12},
			{Balance: token.Units(2_000_000_000), Gas: token.Units(3e9), Gap: 1}},
	}, Config: stack.Config{Token: token.Token{Decimals: 6}}})
	runreport.AddNodes(m, []chain.Health{{Node: "a", Missed: 14, Silent: true}, {Node: "b", Slowest: time.Second}, {Node: "c", Silent: true}})
	for _, name := range strings.Fields("ScheduledRuns OldestProposal RefillsRefused RequestsFailed " +
		"Webhook2xx Webhook3xx Webhook4xx Webhook5xx WebhookNone WebhookDuration " + // of package webhook
		"WebhooksDelivered WebhooksExhausted WebhooksCancelled SecondsToDelivered WebhookOldestDue") {
		m.Add(name, 1)
	}
	return flushed(t, m, out)
}

// TestNumbers holds every line with every number: only the stack has metrics, of which AWS bills each.
func TestNumbers(t *testing.T) {
	got, file := everything(t), "testdata/numbers.jsonl"
	if *update {
		must.OK(t, os.WriteFile(file, []byte(got), 0o600))
	}
	if diff := cmp.Diff(string(must.Get(os.ReadFile(file))(t)), got); diff != "" {
		t.Errorf("-%s +written:\n%s", file, diff)
	}
}

func TestNothingHappened(t *testing.T) {
	m, out := meter()
	runreport.Add(m, settlement.Account{})
	runreport.AddNodes(m, []chain.Health{{Node: "a"}})
	if got := flushed(t, m, out); got != "" {
		t.Errorf("an idle run wrote %s", got)
	}
	m.Add("WalletsLow", 1)
	if first, again := flushed(t, m, out), flushed(t, m, out); first == "" || again != "" {
		t.Errorf("wrote %q, then again %q", first, again)
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
	delete(queried, "code") // of httpapi's lines
	if len(queried) < 20 {
		t.Errorf("the dashboard queries only %v", queried)
	}
	for name := range queried {
		if !strings.Contains(written, `"`+name+`":`) {
			t.Errorf("the dashboard queries %s, which nothing writes", name)
		}
	}
}
