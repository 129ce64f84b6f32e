package measure_test

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/sandbox/devnet"
	"github.com/remit-payouts/remit/internal/sandbox/memory"
)

// BenchmarkPost measures POST /send-payment under clients that each make one payment after the other.
func BenchmarkPost(b *testing.B) {
	c, length := startChain(b, 16), time.Duration(pick(1500, 500))*time.Millisecond
	for _, d := range []distance{far, near} {
		roundTrips := 2*d.rpc + 3*d.store // of one payment, in sequence: estimate, put, reservation, commit, broadcast
		for _, clients := range pick([]int{1, 4, 16, 64, 128}, []int{1, 64}) {
			name := fmt.Sprintf("%v/clients=%d/payer=", d, clients)
			for _, wallets := range pick([]int{1, 4, 16}, []int{4}) {
				b.Run(fmt.Sprintf("%s%d-wallets", name, wallets), func(b *testing.B) {
					paying := c.Wallets()[:wallets]
					r := newRig(b, c, paying, memory.NewPayments(), d, nil)
					before := mined(b, c, paying)
					payMany(b, r, 1, 1)
					r.take()
					latency := load(b, clients, math.MaxInt, length, r.pay)
					calls := r.take()
					b.ReportMetric(float64(calls["request"])/float64(len(latency)), "requests/payment")
					b.ReportMetric(float64(calls["Hint"])/float64(len(latency)), "hints/payment")
					if roundTrips > 0 {
						b.ReportMetric(quantile(latency, 0.5)/millis(roundTrips), "p50/roundtrips")
					}
					if want := before + 1 + len(latency); await(b, c, paying, want) != want {
						b.Fatalf("a nonce hole, or a second transfer: want %d transactions", want)
					}
				})
			}
		}
	}
}

// load has clients make n payments, or as many as they begin within limit, each
// one payment after the other. It returns the milliseconds of each payment. None may fail.
func load(b *testing.B, clients, n int, limit time.Duration, pay func(ctx context.Context, n int) error) (latency []float64) {
	b.Helper()
	var mu sync.Mutex
	var used, after syscall.Rusage
	must.OK(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	begin := time.Now()
	until, cancel := context.WithTimeout(b.Context(), limit)
	defer cancel()
	must.OK(b, each(until, clients, n, func(_ context.Context, i int) error {
		at := time.Now()
		if err := pay(b.Context(), i); err != nil {
			return fmt.Errorf("payment %d was lost: %w", i, err)
		}
		took := millis(time.Since(at))
		mu.Lock()
		defer mu.Unlock()
		latency = append(latency, took)
		return nil
	}))
	took := time.Since(begin)
	must.OK(b, syscall.Getrusage(syscall.RUSAGE_SELF, &after))
	cpu := time.Duration(after.Utime.Nano() + after.Stime.Nano() - used.Utime.Nano() - used.Stime.Nano())
	report(b, metrics{"payments/s": float64(len(latency)) / took.Seconds(), "cpu-ms/payment": millis(cpu) / float64(len(latency)),
		"p50-ms": quantile(latency, 0.5), "p99-ms": quantile(latency, 0.99)})
	return latency
}

// mined returns how many transactions of the wallets are mined.
func mined(b *testing.B, c *devnet.Chain, wallets []devnet.Wallet) (n int) {
	b.Helper()
	for _, w := range wallets {
		n += int(must.Get(c.NonceOf(b.Context(), w.Address))(b))
	}
	return n
}

// await waits until so many transactions of the wallets are mined and final, and
// returns how many are mined. A rig takes a wallet on only when all are final.
func await(b *testing.B, c *devnet.Chain, wallets []devnet.Wallet, want int) int {
	b.Helper()
	for range 240 { // a minute of blocks
		if got := mined(b, c, wallets); got >= want {
			for head := c.Head().Number; c.Head().Number < head+confirmed.Depth; {
				time.Sleep(blockTime / 10)
			}
			return got
		}
		time.Sleep(blockTime)
	}
	b.Fatalf("%d of %d transactions were mined", mined(b, c, wallets), want)
	return 0
}

// BenchmarkSettle measures one round of check-receipts over thousands of pending
// payments, none, some or all of which were mined since the round before.
func BenchmarkSettle(b *testing.B) {
	for _, d := range []distance{near, far} {
		b.Run(d.String(), func(b *testing.B) { rounds(b, d, pick(10_000, 400)) })
	}
}

// rounds measures rounds at one distance, over so many pending payments.
func rounds(b *testing.B, d distance, pending int) {
	const wallets = 16
	c, store, hooks, q := startChain(b, wallets), memory.NewPayments(), memory.NewWebhooks(), &queue{}
	c.Freeze(true)
	subscribe(b, hooks, "https://merchant.example/hooks")
	r := newRig(b, c, c.Wallets(), store, d, webhook.NewPublisher(hooks, q))
	payMany(b, r, 128, pending)
	settle(b, r, 0) // the first round of a wallet reads its balance
	for _, n := range []int{0, 1, pending / 100, pending} {
		time.Sleep(2 * blockTime) // a payment that was just sent is not sent again
		mine(b, c, store, n)
		b.Run(fmt.Sprint("mined=", n), func(b *testing.B) {
			r.take()
			q.at = nil
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			begin := time.Now()
			settle(b, r, n)
			took := time.Since(begin)
			runtime.ReadMemStats(&after)
			calls, all := r.take(), 0
			for _, n := range calls {
				all += n
			}
			own := calls["Wallet"] + calls["PendingTxs"] // reads of a wallet's own part
			reads := own + calls["Payment"] + calls["Wallets"]
			var told []float64
			for _, at := range q.at {
				told = append(told, at.Sub(begin).Seconds())
			}
			report(b, metrics{"s": took.Seconds(), "requests": float64(calls["request"]), "reads": float64(reads),
				"writes":          float64(all - calls["request"] - reads),
				"requests/wallet": float64(calls["request"]-1) / wallets, // but for the head's, one a round and node
				"reads/wallet":    float64(own) / wallets,
				"allocated-MB":    float64(after.TotalAlloc-before.TotalAlloc) / 1e6, "half-told-s": quantile(told, 0.5),
				"all-told-s": quantile(told, 1)})
		})
		if n > 0 && n < pending {
			payMany(b, r, 64, n)
		}
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

// mine mines the first n pending transactions, lowest nonces first, and makes them final.
func mine(b *testing.B, c *devnet.Chain, store *memory.Payments, n int) {
	b.Helper()
	var all []wallet.PendingTx
	for _, w := range c.Wallets() {
		txs, _, err := store.PendingTxs(b.Context(), wallet.ID{ChainID: c.ID(), Address: w.Address}, 0)
		must.OK(b, err)
		all = append(all, txs...)
	}
	slices.SortStableFunc(all, func(x, y wallet.PendingTx) int { return int(x.Nonce) - int(y.Nonce) })
	for block := range slices.Chunk(all[:n], 2500) { // below the gas limit of a block
		var raw [][]byte
		for _, tx := range block {
			raw = append(raw, tx.Raw)
		}
		must.OK(b, c.MineExactly(raw...))
	}
	must.OK(b, c.MineExactly())
}
