package settle

import (
	"context"
	"fmt"
	"time"

	"remit/bench/plot"
	"remit/bench/report"
	"remit/bench/rig"
	"remit/bench/stats"
)

const wallets = 16

// distances at which passes are measured.
var (
	near = rig.Delays{}
	far  = rig.Delays{Store: 4 * time.Millisecond, RPC: 50 * time.Millisecond}
)

// Run measures.
func Run(ctx context.Context, quick bool, say Say) (*report.Result, error) {
	pending, mined, length := 10_000, []int{0, 1, 100, 10_000}, 6*time.Second
	if quick {
		pending, mined, length = 400, []int{0, 1, 20, 400}, 2*time.Second
	}
	r := &report.Result{Setup: fmt.Sprintf("%d payments pending over %d wallets, sent by the real handler and waiting in the embedded chain's pool. So many of them are mined and made final, then check-receipts makes one round over all wallets: "+
		"the real engine on the store in memory, whose calls are counted and delayed as said, and on the chain over HTTP. After each round as many new payments are sent. "+
		"One endpoint subscribes to everything; memory is what the heap grew by during the round.", pending, wallets)}
	var last []pass
	for _, d := range []rig.Delays{near, far} {
		passes, err := measure(ctx, d, pending, mined, say)
		if err != nil {
			return nil, fmt.Errorf("store, RPC %s away: %w", d, err)
		}
		r.Tables = append(r.Tables, table(d, passes))
		last = passes
		r.Figure(fmt.Sprintf("pass_all_seconds_%d_%d", d.Store.Milliseconds(), d.RPC.Milliseconds()), passes[len(passes)-1].took.Seconds())
	}
	say("from block to webhook, 50 payments a second")
	l, err := tell(ctx, far, 50, length)
	if err != nil {
		return nil, err
	}
	r.Tables = append(r.Tables, latencyTable(l))
	r.Plots = []report.Plot{picture(last)}
	finish(r, last, l, pending)
	return r, nil
}

// measure makes a round for each number of newly mined payments.
func measure(ctx context.Context, d rig.Delays, pending int, mined []int, say Say) ([]pass, error) {
	b, err := open(ctx, wallets, d)
	if err != nil {
		return nil, err
	}
	defer func() { _ = b.chain.Close() }()
	b.chain.Pause()
	say("sending %d payments, store, RPC %s away", pending, d)
	if err := rig.Many(ctx, b.stack.Handler, 1, 1); err != nil { // first sight of the wallets
		return nil, err
	}
	if err := rig.Many(ctx, b.stack.Handler, 128, pending-1); err != nil {
		return nil, err
	}
	if _, err := b.round(ctx, 0); err != nil { // balances are reconciled once
		return nil, err
	}
	wait(ctx, 2*rig.BlockTime) // what was just sent is not sent again
	var passes []pass
	for _, n := range mined {
		if err := b.mine(ctx, n); err != nil {
			return nil, fmt.Errorf("mining %d: %w", n, err)
		}
		p, err := b.round(ctx, n)
		if err != nil {
			return nil, fmt.Errorf("after %d were mined: %w", n, err)
		}
		say("%d mined: %.3f s, %d requests, %d store calls", n, p.took.Seconds(), p.requests, rig.Total(p.calls))
		passes = append(passes, p)
		if n > 0 && n < pending {
			if err := rig.Many(ctx, b.stack.Handler, 64, n); err != nil {
				return nil, err
			}
			wait(ctx, 2*rig.BlockTime)
		}
	}
	return passes, nil
}

// reads are the store calls that read one wallet's part.
func reads(calls map[string]int) int { return calls["Wallet"] + calls["PendingTxs"] }

func table(d rig.Delays, passes []pass) report.Table {
	t := report.Table{Title: fmt.Sprintf("One round, store / RPC %s away", d),
		Head: []string{"mined since", "seconds", "RPC requests", "store reads", "store writes", "heap MB", "allocated MB", "s to half of the events", "to the last"}}
	for _, p := range passes {
		read := reads(p.calls) + p.calls["Payment"] + p.calls["Wallets"]
		t.Row(p.mined, fmt.Sprintf("%.3f", p.took.Seconds()), p.requests, read, rig.Total(p.calls)-read, p.peak, p.allocated,
			stats.Median(p.announced), stats.Percentile(p.announced, 100))
	}
	return t
}

func latencyTable(l *latency) report.Table {
	t := report.Table{Title: fmt.Sprintf("From a payment's block to its webhook at the merchant, store / RPC %s away, a block every %s, final after one more", far, rig.BlockTime),
		Head: []string{"payments", "p50 s", "p99 s", "worst s"}}
	t.Row(l.payments, stats.Median(l.toHook), stats.Percentile(l.toHook, 99), stats.Percentile(l.toHook, 100))
	return t
}

func picture(passes []pass) report.Plot {
	l := plot.Lines{Title: "What a round costs", XName: "mined since the last round", YName: "calls", LogY: true,
		Series: []plot.Series{{Name: "RPC requests"}, {Name: "store calls"}}}
	for i, p := range passes {
		l.X = append(l.X, float64(i))
		l.XLabels = append(l.XLabels, plot.Short(float64(p.mined)))
		l.Series[0].Values = append(l.Series[0].Values, float64(p.requests))
		l.Series[1].Values = append(l.Series[1].Values, float64(rig.Total(p.calls)))
	}
	return report.Plot{File: "settle.svg", Caption: l.Title, SVG: l.SVG()}
}

func finish(r *report.Result, passes []pass, l *latency, pending int) {
	idle, hundred, all := passes[0], passes[2], passes[len(passes)-1]
	r.AtMost("nothing mined: RPC requests per wallet", "%.2f", float64(idle.requests)/wallets, 1)
	r.AtMost("nothing mined: store reads per wallet", "%.2f", float64(reads(idle.calls))/wallets, 2)
	perPayment := float64(rig.Total(hundred.calls)-rig.Total(idle.calls)) / float64(hundred.mined)
	requests := float64(hundred.requests-idle.requests) / wallets
	r.Note("With %d of %d mined, a round makes %.1f store calls more for each of the %d, and %.1f RPC requests more per wallet (receipts, blocks): it grows with what was mined.", hundred.mined, pending, perPayment, hundred.mined, requests)
	r.Figure("settle_store_calls_per_payment", perPayment)
	r.Figure("settle_rpc_requests_all", float64(all.requests))
	r.Figure("settle_idle_requests_per_wallet", float64(idle.requests)/wallets)
	r.Figure("block_to_webhook_p50_seconds", stats.Median(l.toHook))
	r.Note("An idle round reads every wallet and all of its pending transactions, one query each: the number of calls does not depend on what is pending, but the size of the answers does. On DynamoDB a pending transaction is about 0.7 kB, and 8 kB cost one read unit.")
	r.Note("A round settles 16 payments of each wallet at a time. Each takes three store calls one after the other (read, finish, delete) and the announcement, so the distance of the store decides how long all of %d take.", pending)
}
