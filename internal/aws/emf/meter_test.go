package emf_test

import (
	"bytes"
	"encoding/json"
	"errors"
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
	"github.com/remit-payouts/remit/internal/merchants/webhook"
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
	m.Add("B", emf.Count, 2)
	m.Add("A", emf.Seconds, 1.5)
	m.Add("A", emf.Seconds, 0)
	m.Add("C", emf.Count)
	want := `{"A":[1.5,0],"B":2,"Stack":"remit-dev","_aws":{"CloudWatchMetrics":[{"Dimensions":[["Stack"]],` +
		`"Metrics":[{"Name":"A","Unit":"Seconds"},{"Name":"B","Unit":"Count"}],"Namespace":"Remit"}],"Timestamp":1767323045006}}` + "\n"
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
		wg.Go(func() { m.Add("A", emf.Count, 1) })
	}
	wg.Wait()
	m.Add("B", emf.Count, 1)
	var sizes []int
	for line := range strings.Lines(flushed(t, m, out)) {
		var parsed struct{ A []float64 }
		must.OK(t, json.Unmarshal([]byte(line), &parsed))
		sizes = append(sizes, len(parsed.A))
	}
	if diff := cmp.Diff([]int{100, 100, 50}, sizes); diff != "" {
		t.Errorf("values per line (-want +got):\n%s", diff)
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("full") }

func TestUnwritable(t *testing.T) {
	m := emf.New(fullDisk{}, "remit-dev", time.Now)
	m.Add("A", emf.Count, 1)
	if err := m.Flush(); err == nil {
		t.Error("no error")
	}
	if err := m.Flush(); err != nil {
		t.Errorf("what could not be written is kept: %v", err)
	}
}

// everything makes every metric there is.
func everything(t *testing.T) string {
	t.Helper()
	m, out := meter()
	amount := token.Units(1_234_567_890)
	runreport.Add(m, settlement.Report{
		Confirmed: 1, Failed: 2, Reservations: 3, Noops: 4, Bumps: 5, Resent: 6, Refused: 13, Unreadable: 7, Suspect: 8, Undecided: 9,
		Paused: 10, Pending: 11,
		Oldest: time.Minute, ToFinal: []time.Duration{time.Second, 1500 * time.Millisecond},
		Spent: []settlement.Spent{{Wallet: token.Address{0xaa}, Fee: amount},
			{Wallet: token.Address{0xaa}, Fee: amount}, {Wallet: token.Address{0xbb}, Noop: true, Fee: amount}},
		Wallets: []settlement.Funds{{Balance: amount, Gas: amount, Gap: 12}},
	}, runreport.Of{Decimals: 6, GasLowGwei: 2})
	runreport.AddNodes(m, []chain.Health{{Node: "a", Missed: 14, Silent: true}, {Node: "b", Missed: 15},
		{Node: "c", Silent: true}})
	for _, result := range []string{"2xx", "3xx", "4xx", "5xx", "none"} {
		m.Attempted(result, 1500*time.Microsecond)
	}
	for _, status := range []webhook.DeliveryStatus{webhook.Delivered, webhook.Exhausted, webhook.Cancelled, webhook.Pending} {
		m.Ended(status, time.Minute)
	}
	m.OldestDue(2 * time.Minute)
	return flushed(t, m, out)
}

func TestMetrics(t *testing.T) {
	stack, parts, _ := strings.Cut(everything(t), "\n")
	var got map[string]any
	must.OK(t, json.Unmarshal([]byte(stack), &got))
	delete(got, "_aws")
	for _, of := range []string{`{"Node":"a","NodeErrors":14,"Stack":"remit-dev",`,
		`{"Node":"b","NodeErrors":15,"Stack":"remit-dev",`,
		`{"PaymentFees":[1.23456789,1.23456789],"Stack":"remit-dev","Wallet":"0xaa00000000000000000000000000000000000000",`,
		`{"NoopFees":1.23456789,"Stack":"remit-dev","Wallet":"0xbb00000000000000000000000000000000000000",`,
	} {
		if !strings.Contains(parts, of) || strings.Count(parts, `"Dimensions":[["Stack","Node"]]`) != 2 ||
			strings.Count(parts, `"Dimensions":[["Stack","Wallet"]]`) != 2 {
			t.Errorf("no line %s in %s", of, parts)
		}
	}
	want := map[string]any{
		"Stack": "remit-dev", "PaymentsConfirmed": 1.0, "PaymentsFailed": 2.0, "ReservationsFinished": 3.0, "Noops": 4.0, "FeeBumps": 5.0,
		"Resent": 6.0, "BroadcastsRefused": 13.0, "ItemsUnreadable": 7.0, "NoncesConsumed": 8.0, "Undecided": 9.0, "WalletsPaused": 10.0,
		"PaymentsPending": 11.0,
		"OldestPending":   60.0, "SecondsToFinal": []any{1.0, 1.5}, "WalletToken": 1234.56789, "WalletGas": 1.23456789, "NonceGap": 12.0,
		"WalletsLow":         1.0,
		"WebhookAttempts2xx": 1.0, "WebhookAttempts3xx": 1.0, "WebhookAttempts4xx": 1.0, "WebhookAttempts5xx": 1.0, "WebhookAttemptsNone": 1.0,
		"WebhookDuration": []any{1.0, 1.0, 1.0, 1.0, 1.0}, "WebhooksDelivered": 1.0, "WebhooksExhausted": 1.0, "WebhooksCancelled": 1.0,
		"SecondsToDelivered": 60.0, "WebhookOldestDue": 120.0, "NodesSilent": 2.0, "NodeErrors": 29.0, "PaymentsFailedShare": 200.0 / 3,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}

func TestNothingHappened(t *testing.T) {
	m, out := meter()
	runreport.Add(m, settlement.Report{}, runreport.Of{Decimals: 6})
	runreport.AddNodes(m, []chain.Health{{Node: "a"}})
	m.OldestDue(0)
	if got := flushed(t, m, out); got != "" {
		t.Errorf("an idle run wrote %s", got)
	}
}

// TestTemplateNamesThem: the dashboard watches metrics that are written. The root's
// TestEveryAlarmRings holds the alarms.
func TestTemplateNamesThem(t *testing.T) {
	template := must.Get(os.ReadFile("../../../template.yaml"))(t)
	_, body, _ := strings.Cut(string(template), "DashboardBody: !Sub |\n")
	body, _, _ = strings.Cut(body, "\n\n")
	if err := json.Unmarshal([]byte(regexp.MustCompile(`\$\{[^}]*\}`).ReplaceAllString(body, "x")), &map[string]any{}); err != nil {
		t.Errorf("the dashboard's body is no JSON, which CloudWatch refuses: %v", err)
	}
	written := everything(t)
	watched := regexp.MustCompile(`\["Remit", "(\w+)"`).FindAllStringSubmatch(string(template), -1)
	if len(watched) < 5 {
		t.Errorf("template.yaml watches only %d metrics", len(watched))
	}
	for _, m := range watched {
		if name := m[1]; !strings.Contains(written, `"`+name+`":`) {
			t.Errorf("template.yaml watches %s, which nothing writes", name)
		}
	}
}
