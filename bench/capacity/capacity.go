package capacity

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"remit/bench/plot"
	"remit/bench/report"
)

// Run measures.
func Run(ctx context.Context, quick bool, say func(format string, args ...any)) (*report.Result, error) {
	n := 400
	if quick {
		n = 40
	}
	b, err := open(ctx)
	if b != nil {
		defer b.close()
	}
	if err != nil {
		return nil, err
	}
	say("%d payments from key to webhook on DynamoDB Local", n)
	l, err := b.live(ctx, n)
	if err != nil {
		return nil, err
	}
	return l.result(), nil
}

func (l *life) result() *report.Result {
	r := &report.Result{Setup: fmt.Sprintf("%d payments from the look-up of their key to their webhook, through the real handlers and engines on DynamoDB Local, which tells the units each call consumed (ReturnConsumedCapacity). "+
		"One endpoint subscribes to everything. A read unit is 4 kB strongly consistent, a write unit 1 kB; a transaction counts double. Settling is a round in which all of them were mined, less a round in which none was.", l.n)}
	phaseTable := report.Table{Title: "Per payment, by function", Head: []string{"", "calls", "read units", "write units", "SQS messages"}}
	detail := report.Table{Title: "Per payment, by operation", Head: []string{"", "calls", "read units", "write units"}}
	bars := plot.Bars{Title: "DynamoDB units of a payment's life", XName: "request units", Series: []plot.Series{{Name: "write units"}, {Name: "read units"}}}
	var all Units
	for _, phase := range phases {
		n := l.made(phase)
		u := total(l.used[phase]).Per(n)
		all = all.add(u)
		phaseTable.Row(phase, u.Calls, u.Reads, u.Writes, l.sent[phase]/n)
		r.Figure("calls_"+phase, u.Calls)
		r.Figure("rru_"+phase, u.Reads)
		r.Figure("wru_"+phase, u.Writes)
		r.Figure("sqs_"+phase, l.sent[phase]/n)
		bars.Names = append(bars.Names, phase)
		bars.Series[0].Values = append(bars.Series[0].Values, u.Writes)
		bars.Series[1].Values = append(bars.Series[1].Values, u.Reads)
		for _, operation := range slices.Sorted(maps.Keys(l.used[phase])) {
			if u := l.used[phase][operation].Per(n); u.Calls > 0.001 {
				detail.Row(phase+", "+operation, u.Calls, u.Reads, u.Writes)
			}
		}
	}
	phaseTable.Row("all", all.Calls, all.Reads, all.Writes, "")
	look := report.Table{Title: "One look of check-receipts at pending payments", Head: []string{"", "calls", "read units", "write units"}}
	look.Row("each wallet (and the list of wallets, shared)", l.perLook.Calls, l.perLook.Reads, l.perLook.Writes)
	look.Row("each payment pending", 0, l.perPendingTx, 0)
	r.Figure("look_rru_wallet", l.perLook.Reads)
	r.Figure("look_wru_wallet", l.perLook.Writes)
	r.Figure("look_rru_pending_tx", l.perPendingTx)
	items := report.Table{Title: "Items", Head: []string{"", "count", "bytes, mean", "bytes, largest"}}
	stored := 0.0
	for _, i := range l.items {
		items.Row(i.kind+", "+i.when, i.count, i.mean, i.most)
		if i.when == kept {
			stored += float64(i.count*i.mean) / float64(l.n)
		}
	}
	r.Figure("bytes_stored", stored)
	r.Tables = []report.Table{phaseTable, detail, look, items}
	r.Plots = []report.Plot{{File: "capacity.svg", Caption: bars.Title, SVG: bars.SVG()}}
	delivery := total(l.used[Deliver]).Per(float64(l.n)).Calls + l.used[Settle]["PutItem"].Per(float64(l.n)).Calls
	r.AtMost("DynamoDB calls of a webhook (stored, loaded, recorded)", "%.2f", delivery, 3)
	r.AtMost("SQS messages of a webhook", "%.2f", l.sent[Settle]/float64(l.n), 1)
	r.Note("A payment leaves %.1f kB for good, its webhook's log included.", stored/1000)
	r.Note("These payments have a reference of 8 characters and no metadata. Up to a kilobyte a committed one has %d bytes left, and a delivery %d: metadata beyond that costs two units more in the commit, and one in the log.",
		1024-l.largest(sent, "payments: payment"), 1024-l.largest(kept, "webhooks: log / delivery"))
	r.Note("DynamoDB Local tells too much for transactions, so the commit is counted by the rule of the developer guide from the measured sizes: two write units for each kilobyte begun of each item, and one for the index that lists payments.")
	return r
}

// made is how many payments a phase is about: the first is made before the
// counting.
func (l *life) made(phase string) float64 {
	if phase == Post {
		return float64(l.n - 1)
	}
	return float64(l.n)
}
