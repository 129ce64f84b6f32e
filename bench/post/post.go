package post

import (
	"context"
	"fmt"
	"time"

	"remit/bench/plot"
	"remit/bench/report"
	"remit/bench/rig"
	"remit/bench/stats"
)

// sequential is what the path waits for one after the other: an estimate, put,
// reservation, commit, and the broadcast, beside which the reservation is released.
func sequential(d rig.Delays) time.Duration { return 2*d.RPC + 3*d.Store }

// Run measures. quick measures less of everything.
func Run(ctx context.Context, quick bool, say Say) (*report.Result, error) {
	p := plan{length: 1500 * time.Millisecond, clients: []int{1, 4, 16, 64, 128}, wallets: []int{1, 4, 16}, say: say}
	payments := 400
	if quick {
		p.length, p.clients, p.wallets, payments = 500*time.Millisecond, []int{1, 64}, []int{4}, 50
	}
	c, err := rig.StartChain(ctx, 17)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	distant, err := p.run(ctx, c, far)
	if err != nil {
		return nil, err
	}
	close, err := p.run(ctx, c, near)
	if err != nil {
		return nil, err
	}
	say("counting calls and allocations of %d payments", payments)
	c.Pause()
	n, err := count(ctx, c, payments)
	if err != nil {
		return nil, err
	}
	return p.result(distant, close, n), nil
}

func (p plan) result(distant, close *sweep, n *counted) *report.Result {
	r := &report.Result{Setup: fmt.Sprintf("The handler of POST /send-payment in this process, on a store in memory and on the embedded chain over HTTP (a block every %s), each call delayed as said. "+
		"Every client makes one payment after the other for %s. The reference is `bench/reference`: one process, a lock around the nonce, count, estimate, sign, send, save; its fees are kept for a block, as ours are. "+
		"After every load the chain's counts are held against what was answered: a nonce hole fails the benchmark.", rig.BlockTime, p.length)}
	for _, s := range []*sweep{distant, close} {
		r.Tables = append(r.Tables, p.table(s))
		r.Plots = append(r.Plots, p.throughputPlot(s))
	}
	r.Plots = append(r.Plots, p.latencyPlot(distant))
	r.Tables = append(r.Tables, callsTable(distant, n))
	p.targets(r, distant, close, n)
	return r
}

// at returns a load by its number of clients.
func (p plan) at(runs []rig.Run, clients int) rig.Run {
	for _, run := range runs {
		if run.Clients == clients {
			return run
		}
	}
	return rig.Run{Took: time.Second}
}

func (p plan) table(s *sweep) report.Table {
	t := report.Table{Title: fmt.Sprintf("Store / RPC %s away: payments a second (p50 ms, p99 ms)", s.delays), Head: []string{"clients", "reference"}}
	for _, w := range p.wallets {
		t.Head = append(t.Head, fmt.Sprintf("%d wallets", w))
	}
	t.Head = append(t.Head, fmt.Sprintf("%d wallets : reference", p.four()))
	for i, clients := range p.clients {
		row := []any{clients, cell(s.reference[i])}
		for _, w := range p.wallets {
			row = append(row, cell(s.ours[w][i]))
		}
		row = append(row, fmt.Sprintf("%.1f ×", stats.Ratio(s.ours[p.four()][i].PerSecond(), s.reference[i].PerSecond())))
		t.Row(row...)
	}
	return t
}

// four is the number of wallets that targets speak of.
func (p plan) four() int { return 4 }

func cell(r rig.Run) string {
	if r.Failed > 0 {
		return fmt.Sprintf("%.0f (%.1f, %.1f), %d lost", r.PerSecond(), r.P(50), r.P(99), r.Failed)
	}
	return fmt.Sprintf("%.0f (%.1f, %.1f)", r.PerSecond(), r.P(50), r.P(99))
}

func (p plan) series(s *sweep, of func(rig.Run) float64) []plot.Series {
	lines := []plot.Series{{Name: "reference"}}
	for _, run := range s.reference {
		lines[0].Values = append(lines[0].Values, of(run))
	}
	for _, w := range p.wallets {
		line := plot.Series{Name: fmt.Sprintf("Remit, %d wallets", w)}
		for _, run := range s.ours[w] {
			line.Values = append(line.Values, of(run))
		}
		lines = append(lines, line)
	}
	return lines
}

func (p plan) throughputPlot(s *sweep) report.Plot {
	name := fmt.Sprintf("post-%d-%d.svg", s.delays.Store.Milliseconds(), s.delays.RPC.Milliseconds())
	title := fmt.Sprintf("Payments a second; store / RPC %s away", s.delays)
	return report.Plot{File: name, Caption: title, SVG: plot.Lines{Title: title, XName: "clients", YName: "payments/s", X: floats(p.clients), LogX: true, LogY: true,
		Series: p.series(s, rig.Run.PerSecond)}.SVG()}
}

func (p plan) latencyPlot(s *sweep) report.Plot {
	title := fmt.Sprintf("Median latency; store / RPC %s away", s.delays)
	return report.Plot{File: "post-latency.svg", Caption: title, SVG: plot.Lines{Title: title, XName: "clients", YName: "ms", X: floats(p.clients), LogX: true, LogY: true,
		Series: p.series(s, func(r rig.Run) float64 { return r.P(50) })}.SVG()}
}

func floats(ints []int) []float64 {
	out := make([]float64, len(ints))
	for i, n := range ints {
		out[i] = float64(n)
	}
	return out
}

func callsTable(s *sweep, n *counted) report.Table {
	t := report.Table{Title: "One payment", Head: []string{"", "per payment"}}
	aws := 0.0
	for _, op := range []string{"PutItem", "UpdateItem", "TransactWriteItems", "GetItem", "Query"} {
		if n.aws[op] > 0 {
			t.Row("DynamoDB "+op, n.aws[op])
			aws += n.aws[op]
		}
	}
	t.Row("DynamoDB calls in all", aws)
	t.Row("… of them one after the other (put, reservation, commit)", 3)
	t.Row("hints (SQS SendMessage), when nobody claims the wallet", stats.Ratio(float64(s.calls["Hint"]), float64(s.paid)))
	t.Row("HTTP requests to the node", stats.Ratio(float64(s.requests), float64(s.paid)))
	t.Row("allocations, store in memory", n.memory[0])
	t.Row("kB allocated, store in memory", n.memory[1]/1000)
	t.Row("ms of processor time, store in memory and a node that answers from memory", n.own)
	t.Row("allocations, DynamoDB", n.dynamo[0])
	t.Row("kB allocated, DynamoDB", n.dynamo[1]/1000)
	return t
}

func (p plan) targets(r *report.Result, distant, close *sweep, n *counted) {
	const busy = 64
	trips := stats.InMillis(sequential(distant.delays))
	lone := p.at(distant.ours[4], p.clients[0])
	r.AtMost("POST p50 at one client, of the sum of its own round trips", "%.2f ×", stats.Ratio(lone.P(50), trips), 1.15)
	r.Because("The processor was not free: a lone payment takes %.2f ms of it in all, and the rest of what is above the round trips is the wait for a core. See the load in the conditions.", lone.CPU)
	crowd := p.at(distant.ours[4], busy)
	r.AtMost("POST p50 at 64 clients and 4 wallets, of the same", "%.2f ×", stats.Ratio(crowd.P(50), trips), 1.15)
	r.Because("At one client it is %.2f. At 64 clients %.0f payments a second want %.2f ms of processor time each, the chain's included, of the two cores and whatever others leave of them: what is measured is the wait for a core. See the load in the conditions.", stats.Ratio(lone.P(50), trips), crowd.PerSecond(), crowd.CPU)
	r.AtLeast("throughput over the reference at 64 clients, 4 wallets, 4 / 50 ms", "%.1f ×", stats.Ratio(crowd.PerSecond(), p.at(distant.reference, busy).PerSecond()), 20)
	r.AtLeast("the same at 0 / 0 ms", "%.1f ×", stats.Ratio(p.at(close.ours[4], busy).PerSecond(), p.at(close.reference, busy).PerSecond()), 3)
	together, theirs := p.at(close.ours[4], busy).CPU, p.at(close.reference, busy).CPU
	r.Because("Without distance nothing is waited for, so the reference's lock costs nothing, and both sides are bound by the two cores that they share with the embedded chain. "+
		"A payment takes %.2f ms of processor time in ours and %.2f ms in the reference, the chain's simulation, signature check and mining included; Remit's own part of that is %.2f ms. "+
		"Three times the reference's throughput would need more cores than there are, or a chain elsewhere. What the reference leaves out at that speed is the rest: it lost payments in this very run where the table says so.", together, theirs, n.own)
	dynamoCalls := 0.0
	for _, calls := range n.aws {
		dynamoCalls += calls
	}
	r.AtMost("DynamoDB calls of a payment (three in sequence, and the release)", "%.2f", dynamoCalls, 4)
	requests := stats.Ratio(float64(distant.requests), float64(distant.paid))
	r.AtMost("HTTP requests to the node (an estimate, a broadcast, fees once a block)", "%.2f", requests, 2.6)
	r.Figure("post_p50_ms_far", lone.P(50))
	r.Figure("post_allocs_dynamo", n.dynamo[0])
	r.Figure("post_rpc_requests", requests)
	r.Figure("post_dynamo_calls", dynamoCalls)
	r.Note("The sum of a payment's own sequential round trips is %.0f ms here: an estimate, put, reservation, commit, and the broadcast, beside which the reservation is released.", trips)
	r.Note("At 0 / 0 ms both sides share the processor with the embedded chain, which simulates, executes and mines every transfer in this process: %.2f ms of processor time per payment in ours at 64 clients, %.2f ms in the reference, of which Remit's own part is %.2f ms.", together, theirs, n.own)
}
