package measure_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"remit/bench/lab"
	"remit/internal/devnet"
	"remit/internal/ethrpc"
	"remit/internal/memory"
)

// BenchmarkPost measures POST /send-payment under clients that each make one
// payment after the other, beside the reference on the same chain. Remit and the
// reference take turns, so that other work of the machine slows both.
func BenchmarkPost(b *testing.B) {
	c := startChain(b, 17)
	for _, d := range []distance{far, near} {
		roundTrips := 2*d.rpc + 3*d.store // of one payment, in sequence: estimate, put, reservation, commit, broadcast
		for _, clients := range pick([]int{1, 4, 16, 64, 128}, []int{1, 64}) {
			name := fmt.Sprintf("%v/clients=%d/payer=", d, clients)
			b.Run(name+"reference", func(b *testing.B) {
				paying := c.Wallets()[:1]
				before := mined(b, c, paying)
				l := apply(b, newReference(b, c, d, ethrpc.NewTransport()), clients)
				b.ReportMetric(float64(l.lost), "lost")
				await(b, c, paying, before+l.paid())
			})
			for _, wallets := range pick([]int{1, 4, 16}, []int{4}) {
				b.Run(fmt.Sprintf("%s%d-wallets", name, wallets), func(b *testing.B) {
					paying := c.Wallets()[1 : 1+wallets] // the first is the reference's
					r := newRig(b, c, paying, memory.NewPayments(), d, ethrpc.NewTransport(), nil)
					before := mined(b, c, paying)
					payMany(b, r.handler, 1, 1)
					r.take()
					l := apply(b, r.handler, clients)
					calls, requests := r.take()
					if l.lost > 0 {
						b.Fatalf("%d of %d payments were lost, such as one with: %v", l.lost, l.lost+l.paid(), l.why)
					}
					b.ReportMetric(float64(requests)/float64(l.paid()), "requests/payment")
					b.ReportMetric(float64(calls["Hint"])/float64(l.paid()), "hints/payment")
					if roundTrips > 0 {
						b.ReportMetric(lab.Quantile(l.latency, 0.5)/lab.Millis(roundTrips), "p50/roundtrips")
					}
					if want := before + 1 + l.paid(); await(b, c, paying, want) != want {
						b.Fatalf("a nonce hole, or a second transfer: want %d transactions", want)
					}
				})
			}
		}
	}
}

// A load is the outcome of clients that paid for a while.
type load struct {
	latency []float64 // milliseconds, of each payment answered 201
	lost    int       // payments not answered 201
	why     error     // of one lost payment
}

func (l *load) paid() int { return len(l.latency) }

// apply has clients pay for a while, each one payment after the other, and
// reports the throughput and the latency.
func apply(b *testing.B, h http.Handler, clients int) *load {
	b.Helper()
	length := time.Duration(pick(1500, 500)) * time.Millisecond
	var mu sync.Mutex
	l := &load{}
	name, begin, used := rand.Text(), time.Now(), processor(b)
	_ = lab.Each(b.Context(), clients, clients, func(ctx context.Context, i int) error {
		for n := 0; time.Since(begin) < length; n++ {
			at := time.Now()
			err := pay(ctx, h, fmt.Sprintf("%s-%d-%d", name, i, n), lab.Base+n)
			took := lab.Millis(time.Since(at))
			mu.Lock()
			if err != nil {
				l.lost, l.why = l.lost+1, err
			} else {
				l.latency = append(l.latency, took)
			}
			mu.Unlock()
		}
		return nil
	})
	took := time.Since(begin)
	if l.paid() == 0 {
		b.Fatalf("no payment was made: %v", l.why)
	}
	lab.Report(b, map[string]float64{
		"payments/s": float64(l.paid()) / took.Seconds(), "cpu-ms/payment": lab.Millis(processor(b)-used) / float64(l.paid()),
		"p50-ms": lab.Quantile(l.latency, 0.5), "p99-ms": lab.Quantile(l.latency, 0.99),
	})
	return l
}

// mined returns how many transactions of the wallets are mined.
func mined(b *testing.B, c *devnet.Chain, wallets []devnet.Wallet) (n int) {
	b.Helper()
	for _, w := range wallets {
		nonce, err := c.NonceOf(b.Context(), w.Address)
		if err != nil {
			b.Fatal(err)
		}
		n += int(nonce)
	}
	return n
}

// await waits until so many transactions of the wallets are mined and all of
// them are final: a store that does not know the wallets takes them on only then.
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
