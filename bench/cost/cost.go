package cost

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"remit/bench/plot"
	"remit/bench/report"
)

// Assumptions that no benchmark can make.
const (
	merchantSeconds = 0.100 // until a merchant's endpoint answers
	storeSeconds    = 0.004 // a round trip to DynamoDB from Lambda in its region, as the other benchmarks inject
	workSeconds     = 0.001 // of a function's own, beside its round trips
	logBytes        = 2000  // per payment, with two lines of the access log
	outBytes        = 3500  // per payment: two answers of 0.9 kB with headers, and a webhook
	finalSeconds    = 60    // until a block is safe on Base, about
	metrics         = 16    // names of EMF metrics
)

// A shape is a month's traffic.
type shape struct {
	name     string
	payments float64
	keys     float64
	wallets  float64
}

var shapes = []shape{{"1,000", 1e3, 3, 4}, {"100,000", 1e5, 20, 4}, {"10,000,000", 1e7, 100, 4}}

// deployed is the stack as template.yaml has it by default.
func deployed(s shape, alarms float64) Stack {
	return Stack{
		PostGB: 1, GetGB: 0.5, AuthorizerGB: 0.5, DeliverGB: 0.5, SettleGB: 1,
		Keys: s.keys, CacheSeconds: 60, Wallets: s.wallets, BlockSeconds: 2, FinalSeconds: finalSeconds,
		LogBytes: logBytes, OutBytes: outBytes, Webhooks: true, Traced: true, Alarms: alarms, Metrics: metrics,
	}
}

// A lever is something an operator can change.
type lever struct {
	name   string
	change func(*Stack)
	safe   bool // gives up nothing of the promise, nor of the contract
}

var levers = []lever{
	{"provisioned DynamoDB that scales with the load", func(s *Stack) { s.Provisioned = true }, true},
	{"no traces", func(s *Stack) { s.Traced = false }, true},
	{"check-receipts with 512 MB", func(s *Stack) { s.SettleGB = 0.5 }, true},
	{"send-payment with 512 MB, the small functions with 256 MB", func(s *Stack) {
		s.PostGB, s.GetGB, s.AuthorizerGB, s.DeliverGB = 0.5, 0.25, 0.25, 0.25
	}, true},
	{"webhooks gathered into batches for a second", func(s *Stack) { s.Gather = 1 }, true},
	{"looking every second block", func(s *Stack) { s.BlockSeconds = 4 }, true},
	{"log level WARN, which loses the metrics", func(s *Stack) { s.LogBytes = 700 }, false},
	{"authorizer cache of 300 s", func(s *Stack) { s.CacheSeconds = 300 }, true},
	{"no authorizer cache", func(s *Stack) { s.CacheSeconds = 0 }, false},
	{"no webhooks", func(s *Stack) { s.Webhooks = false }, false},
	{"a daily limit", func(s *Stack) { s.DailyLimit = true }, false},
	{"final after 10 s instead of 60 s", func(s *Stack) { s.FinalSeconds = 10 }, false},
}

// ErrInputs reports that what a bill is computed from was not measured.
var ErrInputs = errors.New("run the store benchmark first")

// Run computes the bills from the results of other benchmarks in dir, for the
// template at root.
func Run(_ context.Context, root, dir string) (*report.Result, error) {
	store, err := report.Load(dir, "store")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInputs, err)
	}
	text, err := os.ReadFile(filepath.Join(root, "template.yaml"))
	if err != nil {
		return nil, err
	}
	p := paymentOf(store.Figures)
	post, err := report.Load(dir, "post")
	if err == nil && post.Figures["post_p50_ms_far"] > 0 {
		p.Post = post.Figures["post_p50_ms_far"] / 1000
	}
	return result(p, float64(strings.Count(string(text), "Type: AWS::CloudWatch::Alarm"))), nil
}

// paymentOf takes up what the store benchmark counted.
func paymentOf(f map[string]float64) Payment {
	return Payment{
		Writes:     f["wru_send-payment"] + f["wru_check-receipts, to settle"] + f["wru_deliver-webhook"],
		Reads:      f["rru_send-payment"] + f["rru_check-receipts, to settle"] + f["rru_deliver-webhook"] + f["rru_get-transaction"],
		HookWrites: f["wru_deliver-webhook"] + 1, HookReads: f["rru_deliver-webhook"], // and the put that announces it
		AuthorizerReads: f["rru_authorizer"], LookReads: f["look_rru_wallet"], LookWrites: f["look_wru_wallet"], SlotReads: f["look_rru_slot"],
		Stored: f["bytes_stored"], Items: 4, // payment, hash, delivery, and the list's entry
		Post:       2*0.050 + 3*storeSeconds + workSeconds, // unless it was measured
		Get:        2*storeSeconds + workSeconds,
		Authorizer: storeSeconds + workSeconds,
		Deliver:    2*storeSeconds + merchantSeconds + workSeconds,
	}
}

func result(p Payment, alarms float64) *report.Result {
	r := &report.Result{Setup: fmt.Sprintf("Computed, from the units and calls that the store benchmark counted, the seconds of POST that the post benchmark measured (%.0f ms, with RPC 50 ms and DynamoDB 4 ms away), and list prices (bench/cost/prices.go: us-east-1, no free tier, no discount). "+
		"One POST, one GET and one webhook for each payment, spread over the month at random; the node provider is not included. Assumed: a merchant's endpoint answers in %.0f ms, a payment is final after %d s, %d bytes of log and %d bytes to the internet per payment.",
		p.Post*1000, merchantSeconds*1000, finalSeconds, logBytes, outBytes)}
	t := report.Table{Title: "Dollars a month, by payments a month", Head: []string{""}}
	bars := plot.Bars{Title: "Where a dollar goes", XName: "cents of a dollar", Format: func(float64) string { return "" }}
	var bills [][]Line
	for _, s := range shapes {
		t.Head = append(t.Head, s.name)
		bills = append(bills, Bill(s.payments, p, deployed(s, alarms)))
		bars.Names = append(bars.Names, s.name)
	}
	for i, line := range bills[0] {
		row := []any{line.Name}
		part := plot.Series{Name: line.Name}
		for _, bill := range bills {
			row = append(row, money(bill[i].Dollars))
			part.Values = append(part.Values, bill[i].Dollars/Total(bill)*100)
		}
		t.Row(row...)
		bars.Series = append(bars.Series, part)
	}
	all, each := []any{"all"}, []any{"for a million payments"}
	for i, bill := range bills {
		all = append(all, money(Total(bill)))
		each = append(each, money(Total(bill)/shapes[i].payments*1e6))
	}
	t.Row(all...)
	t.Row(each...)
	r.Tables = []report.Table{t, leverTable(p, alarms)}
	r.Plots = []report.Plot{{File: "cost.svg", Caption: bars.Title, SVG: bars.SVG()}}
	largest := shapes[len(shapes)-1]
	best := PerMillion(largest.payments, p, tuned(largest, alarms))
	asIs := PerMillion(largest.payments, p, deployed(largest, alarms))
	r.AtMost("dollars per million payments at 10 million a month, as deployed by default", "%.2f", asIs, 25)
	r.Because("DynamoDB writes on demand are the largest part, %.1f write units for each payment; %.0f of them are what the promise is made of (the payment, its lease, the seal of three items at double price, its release, its end). The levers below bring it to $%.2f, the first of them by far: at a steady 4 payments a second the same writes cost 60 %% less by the hour.", p.Writes, math.Floor(p.Writes-p.HookWrites), best)
	r.AtMost("the same with every lever that gives nothing up", "%.2f", best, 25)
	r.Figure("dollars_per_million_at_10M", asIs)
	r.Figure("dollars_per_million_at_10M_tuned", best)
	r.Note("Storage is of the month's own payments. They are kept for ever, since they are the idempotency records: a million payments cost $%.2f for each further month.",
		1e6*(p.Stored+p.Items*itemOverhead)/1e9*perStoredGB)
	r.Note("check-receipts is awake whenever anything is pending. At 1,000 payments a month that is %.0f s for each of them, the largest part of what they cost; at 10 million it is one run around the clock, whatever their number.", float64(finalSeconds))
	return r
}

// tuned is the deployed stack with every lever that gives nothing up.
func tuned(s shape, alarms float64) Stack {
	stack := deployed(s, alarms)
	for _, l := range levers {
		if l.safe {
			l.change(&stack)
		}
	}
	return stack
}

func leverTable(p Payment, alarms float64) report.Table {
	t := report.Table{Title: "What each lever changes, dollars per million payments", Head: []string{""}}
	for _, s := range shapes {
		t.Head = append(t.Head, "at "+s.name+" a month")
	}
	for _, l := range levers {
		row := []any{l.name}
		for _, s := range shapes {
			stack := deployed(s, alarms)
			before := PerMillion(s.payments, p, stack)
			l.change(&stack)
			row = append(row, fmt.Sprintf("%+.2f", PerMillion(s.payments, p, stack)-before))
		}
		t.Row(row...)
	}
	return t
}

func money(dollars float64) string { return fmt.Sprintf("%.2f", dollars) }
