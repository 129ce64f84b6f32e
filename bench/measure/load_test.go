package measure_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"remit/bench/lab"
	"remit/internal/client"
	"remit/internal/devnet"
)

// BenchmarkLoad measures `remit local` as a process, under clients that each
// make one payment after the other over HTTP. The chain must hold every payment
// exactly once.
func BenchmarkLoad(b *testing.B) {
	remit := lab.Build(b)
	for _, row := range []struct{ clients, wallets, payments int }{{8, 4, 4000}, {32, 4, 15_000}, {32, 16, 15_000}} {
		n := pick(row.payments, 300)
		b.Run(fmt.Sprintf("clients=%d/wallets=%d", row.clients, row.wallets), func(b *testing.B) {
			server, url := lab.Local(b, remit, row.wallets)
			m := lab.Merchant(b, url)
			begin := time.Now()
			hashes, latency := payAll(b, m, row.clients, n)
			took, last := time.Since(begin), time.Now()
			for _, hash := range hashes {
				awaitConfirmed(b, m, hash)
			}
			confirmed := time.Since(last)
			auditOnce(b, m, n)
			processor, peak := server.Usage()
			lab.Report(b, map[string]float64{
				"payments": float64(n), "payments/s": float64(n) / took.Seconds(), "p50-ms": lab.Quantile(latency, 0.5), "p99-ms": lab.Quantile(latency, 0.99),
				"cpu-ms/payment": lab.Millis(processor) / float64(n), "confirmed-s": confirmed.Seconds(), "peak-MB": peak,
			})
		})
	}
}

// payAll makes n payments and returns their hashes, and their latency in
// milliseconds.
func payAll(b *testing.B, m *client.Client, clients, n int) (hashes []string, latency []float64) {
	b.Helper()
	var mu sync.Mutex
	if err := lab.Each(b.Context(), clients, n, func(ctx context.Context, i int) error {
		at := time.Now()
		p, err := m.Send(ctx, client.Order{To: lab.Payee, Amount: json.Number(fmt.Sprint(lab.Base + i))}, fmt.Sprint("order-", i))
		took := lab.Millis(time.Since(at))
		mu.Lock()
		defer mu.Unlock()
		hashes, latency = append(hashes, p.Hash), append(latency, took)
		return err
	}); err != nil {
		b.Fatal(err)
	}
	return hashes, latency
}

// awaitConfirmed asks for a payment until it is confirmed.
func awaitConfirmed(b *testing.B, m *client.Client, hash string) {
	b.Helper()
	for {
		p, err := m.Transaction(b.Context(), hash)
		if err != nil {
			b.Fatal(err)
		}
		switch p.Status {
		case "confirmed":
			return
		case "pending":
			time.Sleep(50 * time.Millisecond)
		default:
			b.Fatalf("payment %s is %s", hash, p.Status)
		}
	}
}

// auditOnce holds that the chain has one transfer of each payment's amount, and
// no other.
func auditOnce(b *testing.B, m *client.Client, n int) {
	b.Helper()
	answer, err := m.Call(b.Context(), "GET", "/sandbox", "")
	var chain devnet.Facts
	if err == nil {
		err = json.Unmarshal(answer.Body, &chain)
	}
	if err != nil {
		b.Fatal(err)
	}
	found, err := lab.Transfers(b.Context(), chain)
	if err != nil {
		b.Fatal(err)
	}
	for i := range n {
		if hashes := found[uint64(lab.Base+i)]; len(hashes) != 1 {
			b.Errorf("payment %d is mined %d times", i, len(hashes))
		}
	}
	if len(found) != n {
		b.Errorf("%d amounts were transferred for %d payments", len(found), n)
	}
}
