package devnet_test

import (
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"

	"remit/internal/devnet"
)

// BenchmarkTransfers measures the chain's own cost of a payment: one
// eth_sendRawTransaction over HTTP, by 16 clients from 4 wallets, its share of
// mining a block of 500, and its receipt out of a batch of 100.
func BenchmarkTransfers(b *testing.B) {
	const block, clients, batch = 500, 16, 100
	p := open(b, devnet.Config{})
	txs := make([]*types.Transaction, b.N)
	for i := range txs {
		txs[i] = p.signed(i%4, friend, 1)
	}
	b.ResetTimer()
	before := cpu(b)
	defer func() { b.ReportMetric(float64((cpu(b)-before).Microseconds())/float64(b.N), "cpu-µs/op") }()
	for len(txs) > 0 {
		n := min(block, len(txs))
		work := make(chan *types.Transaction, n)
		var hashes []common.Hash
		for _, tx := range txs[:n] {
			work <- tx
			hashes = append(hashes, tx.Hash())
		}
		close(work)
		var sending sync.WaitGroup
		for range clients {
			sending.Go(func() {
				for tx := range work {
					if err := p.client.SendTransaction(b.Context(), tx); err != nil {
						b.Error(err)
					}
				}
			})
		}
		sending.Wait()
		p.mine()
		for len(hashes) > 0 {
			k := min(batch, len(hashes))
			for _, r := range p.receipts(hashes[:k]) {
				if r == nil || r.Status != types.ReceiptStatusSuccessful {
					b.Fatal("a payment of the block is not in it")
				}
			}
			hashes = hashes[k:]
		}
		txs = txs[n:]
	}
}

// cpu returns the processor time of this process so far.
func cpu(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkMine measures Mine for a block of 500 transfers: it returns when the
// block is the head and the pool has seen it.
func BenchmarkMine(b *testing.B) {
	p := open(b, devnet.Config{})
	for b.Loop() {
		b.StopTimer()
		for i := range 500 {
			p.send(p.signed(i%4, friend, 1))
		}
		b.StartTimer()
		p.mine()
	}
}
