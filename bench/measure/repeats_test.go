package measure_test

import (
	"context"
	"encoding/json"
	"fmt"
	mathrand "math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"remit/internal/client"
	"remit/internal/memory"
	"remit/internal/webhook"
)

// BenchmarkRepeats measures how long the payments of a merchant take from the request to
// their event while another one, from the same wallet, sends each of its requests twice
// at once on purpose: the slower of two then holds a nonce that no payment uses.
func BenchmarkRepeats(b *testing.B) {
	c, n := startChain(b, 2), pick(600, 60)
	for i, repeated := range []int{0, 20} {
		b.Run(fmt.Sprint("repeated=", repeated), func(b *testing.B) {
			ended := finals{at: map[string]time.Time{}}
			r := newRig(b, c, c.Wallets()[i:i+1], memory.NewPayments(), far, &ended)
			check(b, r.pay(b.Context(), 0)) // the wallet's first use
			r.take()
			ctx, stop := context.WithCancel(b.Context())
			var background, asking sync.WaitGroup
			background.Go(func() {
				for ; ctx.Err() == nil; sleep(ctx, blockTime) {
					_, _ = r.settler.Round(ctx, "bench", true) // a round that fails shows in the times
				}
			})
			for k := 0; repeated > 0 && k < repeated; k++ { // each a pair a second
				background.Go(func() {
					for pair := 0; ctx.Err() == nil; pair++ {
						var both sync.WaitGroup
						for range 2 {
							both.Go(func() { r.ask(ctx, "mer_repeats00000", fmt.Sprintf("%d-%d", k, pair), 0) })
							sleep(ctx, time.Duration(mathrand.IntN(16))*time.Millisecond)
						}
						both.Wait()
						sleep(ctx, time.Second-time.Duration(mathrand.IntN(200))*time.Millisecond)
					}
				})
			}
			began := make([]time.Time, n)
			hashes := make([]string, n)
			for i := range n { // ten a second
				began[i] = time.Now()
				asking.Go(func() {
					w := r.ask(ctx, merchant, fmt.Sprint("order-", i), i)
					var paid client.Payment
					if err := json.Unmarshal(w.Body.Bytes(), &paid); err != nil || w.Code != http.StatusCreated {
						b.Errorf("a payment was answered %d %s", w.Code, w.Body)
					}
					hashes[i] = paid.Hash
				})
				time.Sleep(100 * time.Millisecond)
			}
			asking.Wait()
			var took []float64
			for i, deadline := 0, time.Now().Add(2*time.Minute); i < n; {
				at := ended.of(hashes[i])
				switch {
				case !at.IsZero():
					took, i = append(took, at.Sub(began[i]).Seconds()), i+1
				case time.Now().After(deadline):
					b.Fatalf("payment %d, %s, is not final", i, hashes[i])
				default:
					time.Sleep(blockTime / 10)
				}
			}
			stop()
			background.Wait()
			calls := r.take()
			report(b, metrics{"payments": float64(n), "p50-s": quantile(took, 0.5), "p99-s": quantile(took, 0.99), "worst-s": quantile(took, 1),
				"given-back": float64(calls["Return"]), "filled": float64(calls["PutNoop"])})
		})
	}
}

// finals notes when the event of each payment is published.
type finals struct {
	mu sync.Mutex
	at map[string]time.Time // by the payment's hash
}

// Publish implements settlement.Events.
func (f *finals) Publish(_ context.Context, e webhook.Event) error {
	var said event
	if err := json.Unmarshal(e.Body, &said); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at[said.Data.Hash] = time.Now()
	return nil
}

// of returns when the payment with a hash had its event, zero if it had none.
func (f *finals) of(hash string) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.at[hash]
}
