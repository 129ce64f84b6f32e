package cost

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

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

// under is the deployed stack under a month's traffic.
func under(s shape, stack Stack) Stack {
	stack.Keys, stack.Wallets, stack.FinalSeconds = s.keys, s.wallets, finalSeconds
	stack.LogBytes, stack.OutBytes, stack.Webhooks, stack.Metrics = logBytes, outBytes, true, metrics
	return stack
}

// A lever is something an operator can change.
type lever struct {
	name   string
	change func(*Stack)
	safe   bool // gives up nothing of the promise, nor of the contract
}

var levers = []lever{
	{"PaymentsCapacity=provisioned, which scales with the load", func(s *Stack) { s.Provisioned = true }, true},
	{"no traces", func(s *Stack) { s.TraceReservoir, s.TraceShare, s.QueueTraced = 0, 0, false }, true},
	{"one request a second traced, and a twentieth of the rest, as X-Ray does by itself", func(s *Stack) { s.TraceReservoir, s.TraceShare = 1, 0.05 }, false},
	{"check-receipts with 1,024 MB", func(s *Stack) { s.SettleGB = 1 }, false},
	{"send-payment with 1,024 MB, the small functions with 512 MB", func(s *Stack) {
		s.PostGB, s.GetGB, s.AuthorizerGB, s.DeliverGB = 1, 0.5, 0.5, 0.5
	}, false},
	{"webhooks gathered for a second, which delays them beyond the contract", func(s *Stack) { s.Gather = 1 }, false},
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
	stack, err := parse(text)
	if err != nil {
		return nil, err
	}
	return result(p, stack), nil
}

// paymentOf takes up what the store benchmark counted.
func paymentOf(f map[string]float64) Payment {
	return Payment{
		Writes:     f["wru_send-payment"] + f["wru_check-receipts, to settle"] + f["wru_deliver-webhook"],
		Reads:      f["rru_send-payment"] + f["rru_check-receipts, to settle"] + f["rru_deliver-webhook"] + f["rru_get-transaction"],
		HookWrites: f["wru_deliver-webhook"] + 1, HookReads: f["rru_deliver-webhook"], // and the put that announces it
		AuthorizerReads: f["rru_authorizer"], LookReads: f["look_rru_wallet"], LookWrites: f["look_wru_wallet"], PendingTxReads: f["look_rru_pending_tx"],
		Stored: f["bytes_stored"], Items: 4, // payment, hash, delivery, and the list's entry
		Post:       2*0.050 + 3*storeSeconds + workSeconds, // unless it was measured
		Get:        2*storeSeconds + workSeconds,
		Authorizer: storeSeconds + workSeconds,
		Deliver:    2*storeSeconds + merchantSeconds + workSeconds,
		Work:       workSeconds,
	}
}

func result(p Payment, stack Stack) *report.Result {
	r := &report.Result{Setup: fmt.Sprintf("Computed, from the units and calls that the store benchmark counted, the seconds of POST that the post benchmark measured (%.0f ms, with RPC 50 ms and DynamoDB 4 ms away), and list prices (bench/cost/prices.go: us-east-1, no free tier, no discount). "+
		"One POST, one GET and one webhook for each payment, spread over the month at random; the node provider is not included. Assumed: a merchant's endpoint answers in %.0f ms, a payment is final after %d s, %d bytes of log and %d bytes to the internet per payment. What the template deploys is read from it. A function's own work of %.0f ms takes as much longer as its memory brings less than a core.",
		p.Post*1000, merchantSeconds*1000, finalSeconds, logBytes, outBytes, workSeconds*1000)}
	t := report.Table{Title: "Dollars a month, by payments a month", Head: []string{""}}
	bars := plot.Bars{Title: "Where a dollar goes", XName: "cents of a dollar", Format: func(float64) string { return "" }}
	var bills [][]Line
	for _, s := range shapes {
		t.Head = append(t.Head, s.name)
		bills = append(bills, Bill(s.payments, p, under(s, stack)))
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
	r.Tables = []report.Table{t, leverTable(p, stack)}
	r.Plots = []report.Plot{{File: "cost.svg", Caption: bars.Title, SVG: bars.SVG()}}
	largest := shapes[len(shapes)-1]
	best := PerMillion(largest.payments, p, tuned(largest, stack))
	asIs := PerMillion(largest.payments, p, under(largest, stack))
	r.AtMost("dollars per million payments at 10 million a month, as deployed by default", "%.2f", asIs, 25)
	r.Because("%s", remaining(largest.payments, p, under(largest, stack), asIs-25, best))
	r.AtMost("the same with every lever that gives nothing up", "%.2f", best, 25)
	r.Figure("dollars_per_million_at_10M", asIs)
	r.Figure("dollars_per_million_at_10M_tuned", best)
	r.Note("Storage is of the month's own payments. They are kept for ever, since they are the idempotency records: a million payments cost $%.2f for each further month.",
		1e6*(p.Stored+p.Items*itemOverhead)/1e9*perStoredGB)
	r.Note("check-receipts is awake whenever anything is pending. At 1,000 payments a month that is %.0f s for each of them, the largest part of what they cost; at 10 million it is one run around the clock, whatever their number.", float64(finalSeconds))
	return r
}

// remaining says where the dollars go that are too many, and why they are left.
func remaining(n float64, p Payment, s Stack, over, best float64) string {
	each := map[string]float64{}
	for _, l := range Bill(n, p, s) {
		each[l.Name] = l.Dollars / n * 1e6
	}
	hourly := s
	hourly.Provisioned = true
	return fmt.Sprintf("$%.2f would have to go, %.0f write units of DynamoDB. "+
		"Writes on demand are $%.2f: %.1f units for each payment, and the claims of check-receipts on its wallets. None of the units is spare: the payment 1, its reservation 1, the commit 6 (payment, pending transaction and hash in one transaction, which doubles their price), "+
		"the release 1, the end 2 (its event is stored with it), the pending transaction's deletion 1, the entry in the list of payments 2 (put, and its status changed), the webhook's log 2 (stored, and its attempt recorded). "+
		"Storing the hash outside the transaction would save one and let a 201 be answered for a hash that a crash leaves unknown; a list without the status would save one and could not be filtered by it. "+
		"API Gateway is $%.2f: an HTTP API costs $2 and cannot answer a bad key with the body of the contract. Lambda is $%.2f, most of it the run of check-receipts that is awake around the clock; half its memory would save $%.2f and leave a seventh of a core to settle with. "+
		"What does it is one parameter, PaymentsCapacity=provisioned: at a steady 4 payments a second the same writes cost 60 %% less by the hour, which comes to $%.2f, and to $%.2f with every lever. It is no default, because a provisioned table refuses for minutes what comes faster than it scales, and has a least that costs $%.0f a month when nobody pays.",
		over, math.Ceil(over/(perWriteUnit*1e6)), each["DynamoDB, writes"], p.Writes, each["API Gateway"],
		each["Lambda, duration"]+each["Lambda, requests"], secondsPerMonth*s.SettleGB/2*perGBSecond/n*1e6, PerMillion(n, p, hourly), best,
		(s.FloorUnits+indexFloor)*secondsPerMonth/3600*(perWriteHour+perReadHour))
}

// tuned is the deployed stack with every lever that gives nothing up.
func tuned(s shape, stack Stack) Stack {
	stack = under(s, stack)
	for _, l := range levers {
		if l.safe {
			l.change(&stack)
		}
	}
	return stack
}

func leverTable(p Payment, deployed Stack) report.Table {
	t := report.Table{Title: "What each lever changes, dollars per million payments", Head: []string{""}}
	for _, s := range shapes {
		t.Head = append(t.Head, "at "+s.name+" a month")
	}
	for _, l := range levers {
		row := []any{l.name}
		for _, s := range shapes {
			stack := under(s, deployed)
			before := PerMillion(s.payments, p, stack)
			l.change(&stack)
			row = append(row, fmt.Sprintf("%+.2f", PerMillion(s.payments, p, stack)-before))
		}
		t.Row(row...)
	}
	return t
}

func money(dollars float64) string { return fmt.Sprintf("%.2f", dollars) }
