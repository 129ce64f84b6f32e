package chaos

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"remit/bench/report"
	"remit/bench/stats"
)

// audit waits until the stack has recovered, holds it against what clients
// were told, has the forgotten payments asked for again, and holds it again.
func (b *bed) audit(ctx context.Context) (*report.Result, error) {
	b.Say("waiting until nothing is left to do")
	var first, v verdict
	var err error
	if first.waiting, err = b.drain(ctx); err != nil {
		return nil, err
	}
	b.drained = time.Since(b.calm)
	if err := b.chainAudit(ctx, &first); err != nil {
		return nil, err
	}
	b.Say("asking again for what clients forgot: %d payments are mined 0 times, %d once, %d more often",
		first.mined[0], first.mined[1], first.mined[2])
	b.askAgain(ctx)
	if v.waiting, err = b.drain(ctx); err != nil {
		return nil, err
	}
	if err := b.chainAudit(ctx, &v); err != nil {
		return nil, err
	}
	b.apiAudit(ctx, &v)
	v.twice, v.lost, v.waiting = append(first.twice, v.twice...), append(first.lost, v.lost...), append(first.waiting, v.waiting...)
	return b.result(first, v), nil
}

// askAgain asks for every payment that has no answer. Each has its own key, so
// those that were made meanwhile are only named.
func (b *bed) askAgain(ctx context.Context) {
	work := make(chan *order)
	var askers sync.WaitGroup
	for i := range 16 {
		draw := rand.New(rand.NewPCG(b.Seed, uint64(2000+i)))
		askers.Go(func() {
			for o := range work {
				for try := 0; try < 100 && !b.clients.ask(ctx, o, draw); try++ {
					time.Sleep(100 * time.Millisecond)
				}
			}
		})
	}
	for _, o := range b.clients.book.orders() {
		if o.answer() == "" {
			work <- o
		}
	}
	close(work)
	askers.Wait()
}

// recoveries returns, for each kill, the seconds from the next process serving
// until every payment that had been under way at the kill had its 201, and
// until the first of any.
func (b *bed) recoveries() (toFirst, toAll []float64) {
	for _, k := range b.server.kills {
		if k.ready.IsZero() {
			continue
		}
		var last time.Duration
		for _, o := range b.clients.book.underWay(k.at) {
			if o.hash != "" {
				last = max(last, o.answered.Sub(k.ready))
			}
		}
		toAll = append(toAll, max(last, 0).Seconds())
		next := time.Duration(-1)
		for _, o := range b.clients.book.orders() {
			if after := o.answered.Sub(k.ready); o.hash != "" && after >= 0 && (next < 0 || after < next) {
				next = after
			}
		}
		toFirst = append(toFirst, max(next, 0).Seconds())
	}
	return toFirst, toAll
}

func (b *bed) result(first, v verdict) *report.Result {
	orders := len(b.clients.book.orders())
	kills, failed := b.server.count()
	dbResets, dbLost := b.db.Faults()
	rpcResets, rpcLost := b.rpc.Faults()
	toFirst, toAll := b.recoveries()
	r := &report.Result{Setup: fmt.Sprintf("`remit local` on DynamoDB Local and on a separate `remit chain` (a block every %s, %d wallets), each behind a proxy that resets, delays, and swallows answers. "+
		"%d clients ask for %d payments a second and retry; some hang up early, ask twice at once, or never come back. The server is killed with SIGKILL at random. Seed %d, %s of faults.",
		blockTime, b.Wallets, b.Clients, b.Rate, b.Seed, b.For)}

	t := report.Table{Title: "What happened", Head: []string{"", "count"}}
	t.Row("payments asked for", orders)
	t.Row("requests", b.clients.requests.Load())
	t.Row("… that got no answer, or one to retry", b.clients.failures.Load())
	t.Row("kills of the server (SIGKILL)", kills)
	t.Row("starts that failed because a service was down", failed)
	for _, what := range slices.Sorted(maps.Keys(b.what)) {
		t.Row("faults, "+what, b.what[what])
	}
	t.Row("connections reset, database / node", fmt.Sprintf("%d / %d", dbResets, rpcResets))
	t.Row("answers lost, database / node", fmt.Sprintf("%d / %d", dbLost, rpcLost))

	audit := report.Table{Title: "What the chain says", Head: []string{"", "faults over", "all asked again"}}
	for i, name := range []string{"payments mined 0 times", "payments mined once", "payments mined twice or more"} {
		audit.Row(name, first.mined[i], v.mined[i])
	}
	audit.Row("nonces filled with a no-op", first.noops, v.noops)
	audit.Row("answered 201 and not mined", len(first.lost), len(v.lost))

	recovery := report.Table{Title: "Seconds to recover", Head: []string{"", "median", "p90", "worst"}}
	for _, row := range []struct {
		name   string
		values []float64
	}{{"after a kill, from serving again to the first 201", toFirst}, {"… to the 201 of every payment under way at the kill", toAll}} {
		recovery.Row(row.name, stats.Median(row.values), stats.Percentile(row.values, 90), stats.Percentile(row.values, 100))
	}
	recovery.Row("from the end of all faults to nothing left to do", "", "", b.drained.Seconds())
	r.Tables = []report.Table{t, audit, recovery}

	none := func(what string, found []string) {
		r.AtMost(what, "%.0f", float64(len(found)), 0)
		for _, f := range found[:min(len(found), 5)] {
			r.Note("%s: %s", what, f)
		}
	}
	none("payments mined more than once", v.twice)
	none("payments answered 201 and not mined", v.lost)
	none("transfers nobody asked for", v.foreign)
	none("payments answered with two hashes", v.renamed)
	none("payments answered 201 and not confirmed", v.pending)
	none("confirmed payments never announced", v.silent)
	none("events announced in two forms", v.forged)
	none("wallets with something left for a person", v.waiting)
	none("answers that refuse what must not be refused", v.refused)
	r.AtMost("payments not mined once all were asked for again", "%.0f", float64(v.mined[0]), 0)
	r.AtMost("transactions left in the node's pool", "%.0f", float64(v.unpooled), 0)
	r.AtLeast("kills", "%.0f", float64(kills), 1)
	r.Note("%d events arrived for %d payments; repetitions are allowed, other bodies are not.", v.announced, orders)
	r.Note("Faults overlap: seconds to recover include waiting for a database or a node that was down at that moment.")
	r.Figure("payments", float64(orders))
	r.Figure("kills", float64(kills))
	return r
}
