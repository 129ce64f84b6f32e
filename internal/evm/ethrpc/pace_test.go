package ethrpc_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/ethrpc"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// TestPaymentsGoFirst: a node answers twenty calls a second. Rounds ask for more, and payments make two calls each,
// three to twelve a second. Payments do not fail and hardly wait while there are calls enough, and rounds keep a share.
// Once the rate is known, the node refuses fewer than one call in twenty, and nine tenths of the rate are used.
func TestPaymentsGoFirst(t *testing.T) {
	for every, after := range map[time.Duration]string{300 * time.Millisecond: "0", 140 * time.Millisecond: "", 80 * time.Millisecond: ""} {
		synctest.Test(t, func(t *testing.T) {
			quota := &metered{rate: 20, after: after}
			node := must.Get(ethrpc.Open("http://node", ethrpc.Config{ChainID: 1, Transport: quota, Log: slog.New(slog.DiscardHandler)}))(t)
			ctx, cancel := context.WithCancel(t.Context())
			var all, payments sync.WaitGroup
			var mu sync.Mutex
			var took []time.Duration
			rounds, busy, failed := 0, 0, 0
			for range 4 {
				all.Go(func() {
					for ctx.Err() == nil {
						yielding, _ := chain.Yielding(ctx)
						_, err := node.Receipts(yielding, make([]chain.Hash, 8))
						mu.Lock()
						if rounds++; err != nil && ctx.Err() == nil {
							busy++
						}
						mu.Unlock()
						time.Sleep(50 * time.Millisecond)
					}
				})
			}
			time.Sleep(10 * time.Second)
			mu.Lock()
			rounds, busy = 0, 0
			mu.Unlock()
			began := time.Now()
			quota.mu.Lock()
			quota.answered, quota.refused = 0, 0
			quota.mu.Unlock()
			for range int(time.Minute / every) {
				time.Sleep(every)
				payments.Go(func() {
					began := time.Now()
					_, err := node.Receipts(ctx, make([]chain.Hash, 1))
					if err == nil {
						_, err = node.Receipts(ctx, make([]chain.Hash, 1))
					}
					mu.Lock()
					defer mu.Unlock()
					if took = append(took, time.Since(began)); err != nil {
						failed++
					}
				})
			}
			payments.Wait()
			quota.mu.Lock()
			refused, used := quota.refused/quota.answered, quota.answered/time.Since(began).Seconds()/quota.rate
			quota.mu.Unlock()
			if cancel(); refused > 0.05 || used < 0.9 {
				t.Errorf("a payment each %v: %.3f calls are refused for each answered, %.2f of the rate is used", every, refused, used)
			}
			all.Wait()
			slices.Sort(took)
			slow, enough := took[len(took)*95/100], every > 100*time.Millisecond
			if enough && (failed > 0 || slow > 500*time.Millisecond) || rounds < 20 || busy > rounds/3 {
				t.Errorf("a payment each %v: %d of %d failed, p95 %v; %d rounds of wallets, %d without an answer", every, failed,
					len(took), slow, rounds, busy)
			}
		})
	}
}

// TestOneCallProbes: however long a node wants to be left alone, it is asked again after a minute, by
// one call. The others follow once that is answered.
func TestOneCallProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quota := &metered{rate: 1000, after: "3600"}
		var at []time.Duration // requests
		var all sync.WaitGroup
		began := time.Now()
		node := must.Get(ethrpc.Open("http://node", ethrpc.Config{ChainID: 1, Log: slog.New(slog.DiscardHandler),
			Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
				quota.mu.Lock()
				at = append(at, time.Since(began).Truncate(time.Second))
				if quota.rate = 1000; time.Since(began) < 90*time.Second {
					quota.rate = 0
				}
				quota.mu.Unlock()
				return quota.RoundTrip(r)
			})}))(t)
		for range 130 {
			for range 5 {
				all.Go(func() { _, _ = node.Receipts(t.Context(), make([]chain.Hash, 3)) })
			}
			time.Sleep(time.Second)
		}
		all.Wait()
		after := slices.DeleteFunc(at, func(d time.Duration) bool { return d < time.Second })
		if len(after) < 10 || after[0] != time.Minute || after[1] != 2*time.Minute || after[3] > 2*time.Minute+time.Second {
			t.Errorf("requests after the refusal at %v, want one after a minute, and all once one has passed", after)
		}
	})
}

// TestARateIsNoSize: a refusal of a whole batch for the rate of calls does not make the batches smaller, in whatever
// form it comes. One that does not say so makes them smaller for a while.
func TestARateIsNoSize(t *testing.T) {
	for text, want := range map[string]int{
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32005,"message":"rate limit exceeded"}}`:                100,
		`{"id":null,"error":{"code":429,"message":"no"}}`:                                                    100,
		`{"error":"Too Many Requests"}`:                                                                      100,
		`{"error":{"code":-32007,"message":"30/second request limit reached - reduce calls per second"}}`:    100,
		`{"error":{"code":-32005,"message":"You've exceeded the RPS limit available on the current plan."}}`: 100,
		`400 {"message":"rate limit exceeded"}`:                                                              100,
		`{"error":{"code":-32603,"message":"Internal error"}}`:                                               50,
	} {
		now, refused := time.Now(), false
		s := mined(t)
		s.refuse = func(w http.ResponseWriter, calls []request) bool {
			if len(calls) < 100 || refused {
				return false
			}
			refused = true
			if page, ok := strings.CutPrefix(text, "400 "); ok {
				http.Error(w, page, http.StatusBadRequest)
			} else {
				_, _ = io.WriteString(w, text)
			}
			return true
		}
		node := must.Get(ethrpc.Open(s.URL, ethrpc.Config{ChainID: chainID, Now: func() time.Time { return now },
			Wait: func(_ context.Context, d time.Duration) error {
				now = now.Add(d + time.Second)
				return nil
			}}))(t)
		must.Get(node.Receipts(t.Context(), hashes(99)))(t)
		size := node.BatchSize()
		now = now.Add(time.Hour)
		must.Get(node.Receipts(t.Context(), hashes(99)))(t)
		if size != want || node.BatchSize() != 100 {
			t.Errorf("%s: batches of %d, an hour later of %d, want %d and 100", text, size, node.BatchSize(), want)
		}
	}
}
