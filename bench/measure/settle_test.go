package measure_test

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/sandbox/devnet"
	"github.com/remit-payouts/remit/internal/sandbox/memory"
)

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

// mine mines the first n pending transactions, lowest nonces first, and makes them
// final.
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
