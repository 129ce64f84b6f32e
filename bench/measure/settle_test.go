package measure_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"remit/bench/lab"
	"remit/internal/devnet"
	"remit/internal/ethrpc"
	"remit/internal/memory"
	"remit/internal/wallet"
	"remit/internal/webhook"
	"remit/internal/webhook/guard"
)

// BenchmarkSettle measures one round of check-receipts over thousands of pending
// payments, none, some or all of which were mined since the round before.
func BenchmarkSettle(b *testing.B) {
	const wallets = 16
	pending := pick(10_000, 400)
	for _, d := range []distance{near, far} {
		c, store, q := startChain(b, wallets), memory.NewPayments(), &queue{}
		c.Freeze()
		hooks := memory.NewWebhooks()
		subscribe(b, hooks, "https://merchant.example/hooks")
		r := newRig(b, c, c.Wallets(), store, d, ethrpc.NewTransport(), webhook.NewPublisher(hooks, q))
		payMany(b, r.handler, 128, pending)
		settle(b, r, 0) // the first round of a wallet reads its balance
		for _, n := range []int{0, 1, pending / 100, pending} {
			time.Sleep(2 * blockTime) // a payment that was just sent is not sent again
			mine(b, c, store, n)
			b.Run(fmt.Sprintf("%v/mined=%d", d, n), func(b *testing.B) {
				r.take()
				q.at = nil
				var before, after runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&before)
				begin := time.Now()
				settle(b, r, n)
				took := time.Since(begin)
				runtime.ReadMemStats(&after)
				calls, requests := r.take()
				reads := calls["Wallet"] + calls["PendingTxs"] // of a wallet's own part
				allReads := reads + calls["Payment"] + calls["Wallets"]
				var told []float64
				for _, at := range q.at {
					told = append(told, at.Sub(begin).Seconds())
				}
				lab.Report(b, map[string]float64{
					"s": took.Seconds(), "requests": float64(requests), "reads": float64(allReads), "writes": float64(total(calls) - allReads),
					"requests/wallet": float64(requests) / wallets, "reads/wallet": float64(reads) / wallets,
					"allocated-MB": float64(after.TotalAlloc-before.TotalAlloc) / 1e6,
					"half-told-s":  lab.Quantile(told, 0.5), "all-told-s": lab.Quantile(told, 1),
				})
			})
			if n > 0 && n < pending {
				payMany(b, r.handler, 64, n)
			}
		}
		_ = c.Close()
	}
}

// settle makes one round over all wallets, which must end so many payments.
func settle(b *testing.B, r *rig, want int) {
	b.Helper()
	report, err := r.settler.Round(b.Context(), "bench", true)
	if err != nil || report.Confirmed != want {
		b.Fatalf("%d of %d mined payments were settled: %v", report.Confirmed, want, err)
	}
}

// mine mines the first n pending transactions, lowest nonces first, and makes
// them final.
func mine(b *testing.B, c *devnet.Chain, store *memory.Payments, n int) {
	b.Helper()
	const perBlock = 2500 // below the gas limit of a block
	var all []wallet.PendingTx
	for _, w := range c.Wallets() {
		txs, _, err := store.PendingTxs(b.Context(), wallet.ID{ChainID: c.ID(), Address: w.Address})
		if err != nil {
			b.Fatal(err)
		}
		all = append(all, txs...)
	}
	slices.SortStableFunc(all, func(x, y wallet.PendingTx) int { return int(x.Nonce) - int(y.Nonce) })
	for block := range slices.Chunk(all[:n], perBlock) {
		var raw [][]byte
		for _, tx := range block {
			raw = append(raw, tx.Raw)
		}
		if err := c.MineExactly(raw...); err != nil {
			b.Fatal(err)
		}
	}
	if err := c.MineExactly(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkTold measures how long after its block a merchant is told of a
// payment: payments at a steady rate, rounds of check-receipts one after the
// other, and webhooks over HTTP.
func BenchmarkTold(b *testing.B) {
	const rate = 50
	n := rate * pick(6, 2)
	c, hooks := startChain(b, 4), memory.NewWebhooks()
	receiver := lab.NewReceiver(b, nil)
	subscribe(b, hooks, receiver.URL)
	jobs := &immediate{ctx: b.Context()}
	jobs.deliverer = webhook.NewDeliverer(hooks, jobs, guard.NewClient(true), webhook.NoMeter{}, time.Now, func() float64 { return 0.5 })
	r := newRig(b, c, c.Wallets(), memory.NewPayments(), far, ethrpc.NewTransport(), webhook.NewPublisher(hooks, jobs))
	ctx, stop := context.WithCancel(b.Context())
	heads := map[uint64]time.Time{} // when each block became the head
	var running sync.WaitGroup
	running.Go(func() {
		for ; ctx.Err() == nil; lab.Sleep(ctx, 2*time.Millisecond) {
			if head := c.Head().Number; heads[head].IsZero() {
				heads[head] = time.Now()
			}
		}
	})
	running.Go(func() {
		for ; ctx.Err() == nil; lab.Sleep(ctx, 10*time.Millisecond) {
			_, _ = r.settler.Run(ctx, "bench") // after an error, payments whose webhooks never come
		}
	})
	tick := time.NewTicker(time.Second / rate)
	defer tick.Stop()
	err := lab.Each(ctx, n, n, func(ctx context.Context, i int) error {
		<-tick.C
		return pay(ctx, r.handler, fmt.Sprint("told-", i), lab.Base+i)
	})
	for i := 0; err == nil && receiver.Count() < n && i < 200; i++ {
		time.Sleep(50 * time.Millisecond)
	}
	stop()
	running.Wait()
	events, _ := receiver.Events()
	if err != nil || len(events) != n {
		b.Fatalf("%d of %d webhooks arrived: %v", len(events), n, err)
	}
	var waits []float64
	for _, e := range events {
		waits = append(waits, e.At.Sub(heads[e.Data.Block]).Seconds())
	}
	lab.Emit(b, far.String(), map[string]float64{"payments": float64(n),
		"p50-s": lab.Quantile(waits, 0.5), "p99-s": lab.Quantile(waits, 0.99), "worst-s": lab.Quantile(waits, 1)})
}

// immediate is a queue whose jobs are done as soon as they are due.
type immediate struct {
	ctx       context.Context
	deliverer *webhook.Deliverer
}

// Enqueue implements webhook.Queue.
func (q *immediate) Enqueue(_ context.Context, job string, delay time.Duration) error {
	time.AfterFunc(delay, func() { _ = q.deliverer.Deliver(q.ctx, job) }) // after an error, a webhook that never comes
	return nil
}
