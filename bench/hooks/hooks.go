package hooks

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"remit/bench/plot"
	"remit/bench/report"
	"remit/bench/stats"
	"remit/internal/webhook"
)

// Run measures. remit is the binary, dir is for its log.
func Run(ctx context.Context, remit, dir string, quick bool, say Say) (*report.Result, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	payments := 100
	if quick {
		payments = 10
	}
	var outcomes []*outcome
	for _, t := range []trial{{0, 0, payments}, {5, 5, payments}} {
		o, err := t.run(ctx, remit, dir)
		if err != nil {
			return nil, fmt.Errorf("%d hanging, %d refusing: %w", t.hanging, t.refusing, err)
		}
		say("%d hanging, %d refusing: p99 of the healthy ones %.2f s", t.hanging, t.refusing, stats.Percentile(o.delays, 99))
		outcomes = append(outcomes, o)
	}
	return result(outcomes[0], outcomes[1]), nil
}

func result(good, bad *outcome) *report.Result {
	events := merchants * perMerchant * good.payments
	r := &report.Result{Setup: fmt.Sprintf("`remit local`, %d merchants with %d endpoints each, every endpoint a server on a port of its own; %d payments of each merchant make %d webhooks, all due within seconds. "+
		"Five endpoints hang until the sender gives up (15 s), five refuse the connection. A delay is from the event's timestamp to its first arrival.", merchants, perMerchant, good.payments, events)}
	t := report.Table{Title: "Delay of the healthy endpoints' webhooks", Head: []string{"", "webhooks", "p50 s", "p99 s", "worst s", "repeated", "peak MB"}}
	for _, row := range []struct {
		name string
		o    *outcome
	}{{"100 healthy", good}, {"90 healthy, 5 hang, 5 refuse", bad}} {
		t.Row(row.name, len(row.o.delays), stats.Median(row.o.delays), stats.Percentile(row.o.delays, 99), stats.Percentile(row.o.delays, 100), row.o.repeats, row.o.peak)
	}
	ratio := stats.Ratio(stats.Percentile(bad.delays, 99), stats.Percentile(good.delays, 99))
	r.AtMost("p99 of the healthy ones with ten bad ones, of a run without", "%.2f ×", ratio, 1.5)
	r.AtLeast("webhooks of healthy endpoints that arrived", "%.0f", float64(len(bad.delays)), float64((merchants*perMerchant-10)*good.payments))
	r.AtMost("memory with ten bad ones, of a run without", "%.2f ×", stats.Ratio(bad.peak, good.peak), 1.5)
	r.Tables = []report.Table{t, lambdaTable()}
	r.Plots = []report.Plot{delaysPlot(good, bad)}
	r.Note("On Lambda an endpoint that hangs holds a batch of the queue for 15 s. As long as batches are left, nobody waits; when the hanging posts of 15 s fill them all, healthy webhooks wait too. The second table says where that begins: it is computed, not measured.")
	return r
}

// lambdaTable computes how long healthy webhooks wait for a batch on Lambda.
func lambdaTable() report.Table {
	t := report.Table{Title: "Model of Lambda: p99 wait of healthy webhooks in seconds, when 5 % of all hang", Head: []string{"batches at once (WebhookConcurrency)"}}
	rates := []struct {
		name string
		rate float64
	}{{"4/s (10 M a month)", 4}, {"20/s", 20}, {"40/s", 40}, {"100/s", 100}, {"10,000 at once", 0}}
	for _, rate := range rates {
		t.Head = append(t.Head, rate.name)
	}
	for _, batches := range []int{20, 50, 100, 500} {
		row := []any{batches}
		for _, rate := range rates {
			draw := rand.New(rand.NewPCG(1, 2))
			f := fleet{batches: batches, size: 10, quick: 100 * time.Millisecond, hung: webhook.SendTimeout}
			row = append(row, stats.Percentile(f.work(arrivals(10_000, rate.rate, 0.05, draw)), 99))
		}
		t.Row(row...)
	}
	return t
}

func delaysPlot(good, bad *outcome) report.Plot {
	l := plot.Lines{Title: "Delay of healthy endpoints' webhooks", XName: "percentile", YName: "s",
		Series: []plot.Series{{Name: "without bad ones"}, {Name: "5 hang, 5 refuse"}}}
	for i, p := range []float64{1, 10, 25, 50, 75, 90, 95, 99, 100} {
		l.X = append(l.X, float64(i))
		l.XLabels = append(l.XLabels, plot.Short(p))
		l.Series[0].Values = append(l.Series[0].Values, stats.Percentile(good.delays, p))
		l.Series[1].Values = append(l.Series[1].Values, stats.Percentile(bad.delays, p))
	}
	return report.Plot{File: "webhooks.svg", Caption: l.Title, SVG: l.SVG()}
}
