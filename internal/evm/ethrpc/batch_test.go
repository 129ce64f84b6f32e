package ethrpc_test

import (
	"context"
	_ "embed" // testdata/replies.tsv
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/ethrpc"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/tabletest"
)

func mined(t *testing.T) *server {
	return serve(t, map[string]func(request) raw{"eth_getTransactionReceipt": func(r request) raw {
		tx, _ := chain.ParseHash(r.arg(0))
		return result(recordedReceipt(tx))
	}})
}

// TestTakesBatchesOfAnySize has a row for each way in which nodes and gateways refuse a batch that is too large:
// the most calls that they take, and how they answer more. ID stands for that of the first call, or in "each" of each.
func TestTakesBatchesOfAnySize(t *testing.T) {
	tabletest.Run(t, nil, func(t *testing.T, c tabletest.Case) {
		var sizes []int
		most, status := must.Get(strconv.Atoi(c.In[0]))(t), must.Get(strconv.Atoi(c.In[1]))(t)
		s := mined(t)
		s.refuse = func(w http.ResponseWriter, calls []request) bool {
			sizes = append(sizes, len(calls))
			if len(calls) <= most {
				return false
			}
			text, each := strings.CutPrefix(c.Want, "each ")
			var all []string
			for _, call := range calls {
				all = append(all, strings.Replace(text, "ID", string(call.ID), 1))
			}
			if text = all[0]; each {
				text = "[" + strings.Join(all, ",") + "]"
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, text)
			return true
		}
		node := open(t, s.URL)
		for round := range 2 {
			sizes = nil
			got, err := node.Receipts(t.Context(), hashes(120))
			if err != nil || len(got) != 120 {
				t.Fatalf("%d receipts, %v, want 120", len(got), err)
			}
			if refused := len(slices.DeleteFunc(sizes, func(n int) bool { return n <= most })); refused > 7*(1-round) {
				t.Errorf("round %d: %d batches were refused; the size is to be remembered", round, refused)
			}
		}
	})
}

// busy answers that a node is too busy, with a Retry-After unless that is empty.
func busy(w http.ResponseWriter, after string) bool {
	if after != "" {
		w.Header().Set("Retry-After", after)
	}
	http.Error(w, "slow down", http.StatusTooManyRequests)
	return true
}

// TestBacksOff: a node that limits its rate is asked again later, for the calls
// that it did not answer and no others, as late as it wants, and not for ever.
func TestBacksOff(t *testing.T) {
	for _, row := range []struct {
		name  string
		calls int // that the node answers before it says that it is too busy, between two waits
		after string
		waits []time.Duration // the first
		read  int             // receipts of 40
	}{
		{"HTTP 429", 60, "", nil, 40},
		{"HTTP 429 with Retry-After", 21, "2", []time.Duration{2 * time.Second}, 40},
		{"for ever", 0, "", []time.Duration{500 * time.Millisecond, 400 * time.Millisecond,
			800 * time.Millisecond, 1600 * time.Millisecond}, 0},
		{"longer than anybody waits", 0, "60", nil, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			left := row.calls
			s := mined(t)
			s.refuse = func(w http.ResponseWriter, calls []request) bool {
				left -= len(calls)
				return left < 0 && busy(w, row.after)
			}
			var waits []time.Duration
			now := time.Now()
			node := must.Get(ethrpc.Open(s.URL, ethrpc.Config{ChainID: chainID, Now: func() time.Time { return now },
				Wait: func(_ context.Context, d time.Duration) error {
					waits, left, now = append(waits, d), row.calls, now.Add(d)
					return nil
				}}))(t)
			got, err := node.Receipts(t.Context(), hashes(40))
			if len(got) != row.read || (err == nil) != (row.read == 40) ||
				!slices.Equal(waits[:min(len(waits), max(1, len(row.waits)))], row.waits) {
				t.Errorf("%d receipts, %v, after waits of %v; want %d, %v", len(got), err, waits, row.read, row.waits)
			}
		})
	}
}

// TestABusyNode: a node that has just answered and takes no more calls is not asked, which says
// nothing of it. One that refuses every call is not busy.
func TestABusyNode(t *testing.T) {
	left, now := 3, time.Now()
	s := mined(t)
	s.refuse = func(w http.ResponseWriter, calls []request) bool {
		left -= len(calls)
		return left < 0 && busy(w, "60")
	}
	node := must.Get(ethrpc.Open(s.URL, ethrpc.Config{ChainID: chainID, Now: func() time.Time { return now }}))(t)
	must.Get(node.Receipts(t.Context(), hashes(2)))(t) // and the chain's id
	for _, busy := range []bool{true, false} {
		_, err := node.Receipts(t.Context(), hashes(1))
		reply := node.Send(t.Context(), []byte{1})
		if errors.Is(err, chain.ErrBusy) != busy || err == nil || reply.Class != chain.Ambiguous || reply.Unasked != busy {
			t.Errorf("%v; sent: %+v; want busy %t", err, reply, busy)
		}
		now = now.Add(2 * time.Minute)
	}
}

// TestABatchThatFailsForAnotherReasonIsNotHalved: a node that is down is asked once.
func TestABatchThatFailsForAnotherReasonIsNotHalved(t *testing.T) {
	for _, code := range []int{http.StatusUnauthorized, http.StatusBadGateway, http.StatusServiceUnavailable} {
		requests := 0
		url := handle(t, func(w http.ResponseWriter, _ *http.Request) {
			requests++
			http.Error(w, "down", code)
		})
		if _, err := open(t, url).Receipts(t.Context(), hashes(40)); err == nil || requests != 1 {
			t.Errorf("HTTP %d: %v after %d requests, want one", code, err, requests)
		}
	}
}

// signed is a transaction that eth-account 0.14.0 (Python) signed, and its hash.
const signedHash = "0xba515805c0291f3d72fb88628ee9fe2302b7b7c4c289d0a08b67615d65caae64"

var signed, _ = hex.DecodeString("02f87c0180809a0100000000000000000000000000000000000000000000000000825208949d8a62f656a8d1615c1294fd71e9cfb3e4855a4f8080" +
	"c001a07cf39756638260e0336166a7c6db683e7588de73d39df415b0420bf7cca17f40a040e9fd1207db0e23f75e786710960473fe77709f8fc7cee4a854318d5a60717f")

// TestTakesNothingForAnAnswerThatIsNone: a row has the status of a node's answer, 0 if it hangs up, and the body.
func TestTakesNothingForAnAnswerThatIsNone(t *testing.T) {
	words := map[string]string{"id": `{"jsonrpc":"2.0","id":1,"result":"0x14a34"}`,
		"gap":     `{"jsonrpc":"2.0","id":2,"error":{"code":-32000,"message":"nonce too low"}}`,
		"refusal": `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"intrinsic gas too low"}}`}
	tabletest.Run(t, words, func(t *testing.T, c tabletest.Case) {
		status := must.Get(strconv.Atoi(c.In[0]))(t)
		url := handle(t, func(w http.ResponseWriter, r *http.Request) {
			if status == 0 {
				panic(http.ErrAbortHandler)
			}
			if r.URL.Path == "/elsewhere" {
				t.Error("the redirect was followed")
			}
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, c.Want)
		})
		if reply := open(t, url).Send(t.Context(), signed); reply.Class != chain.Ambiguous || reply.Detail == "" {
			t.Errorf("reply %+v, want ambiguous and why", reply)
		}
	})
}

//go:embed testdata/replies.tsv
var replies string

// said is one text of one client, as it goes over the wire.
type said struct {
	class               chain.Class
	client, code, words string
}

func recorded() (all []said) {
	for line := range strings.Lines(replies) {
		if f := strings.Split(strings.TrimSuffix(line, "\n"), "\t"); len(f) == 5 {
			all = append(all, said{chain.Class(f[0]), f[1], f[2], f[3]})
		}
	}
	return all
}

// TestClassifiesWhatClientsSay: every class has a recorded text.
func TestClassifiesWhatClientsSay(t *testing.T) {
	for _, class := range chain.Classes() {
		if class != chain.Accepted && !slices.ContainsFunc(recorded(), func(s said) bool { return s.class == class }) {
			t.Errorf("no recorded text of class %s", class)
		}
	}
	for _, row := range recorded() {
		t.Run(row.client+": "+row.words, func(t *testing.T) {
			s := serve(t, map[string]func(request) raw{"eth_sendRawTransaction": always(failure(row.code, row.words))})
			got := open(t, s.URL).Send(t.Context(), []byte{2})
			if got.Class != row.class {
				t.Errorf("class %s, want %s", got.Class, row.class)
			}
			if !strings.Contains(got.Detail, row.words) || !strings.Contains(got.Detail, row.code) {
				t.Errorf("detail %q does not say %s %q", got.Detail, row.code, row.words)
			}
		})
	}
}

// TestPaymentsGoFirst: a node answers twenty calls a second. Rounds ask for more, and payments make two calls each,
// three to twelve a second. Payments do not fail and hardly wait while there are calls enough, and rounds keep a share.
// Once the rate is known, the node refuses fewer than one call in twenty, and nine tenths of the rate are used.
func TestPaymentsGoFirst(t *testing.T) {
	const minutes = 5
	for every, after := range map[time.Duration]string{300 * time.Millisecond: "0", 140 * time.Millisecond: "", 80 * time.Millisecond: ""} {
		var share float64 // of the rate, in all of these minutes: chance decides the order of calls
		minute := func(t *testing.T) {
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
			share += used / minutes
			if cancel(); refused > 0.05 {
				t.Errorf("a payment each %v: %.3f calls are refused for each answered", every, refused)
			}
			all.Wait()
			slices.Sort(took)
			slow, enough := took[len(took)*95/100], every > 100*time.Millisecond
			if enough && (failed > 0 || slow > 500*time.Millisecond) || rounds < 20 || busy > rounds/3 {
				t.Errorf("a payment each %v: %d of %d failed, p95 %v; %d rounds of wallets, %d without an answer", every, failed,
					len(took), slow, rounds, busy)
			}
		}
		for range minutes {
			synctest.Test(t, minute)
		}
		if share < 0.9 {
			t.Errorf("a payment each %v: %.2f of the rate is used", every, share)
		}
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
	tabletest.Run(t, nil, func(t *testing.T, c tabletest.Case) {
		want, status := must.Get(strconv.Atoi(c.Want))(t), must.Get(strconv.Atoi(c.In[0]))(t)
		now, refused := time.Now(), false
		s := mined(t)
		s.refuse = func(w http.ResponseWriter, calls []request) bool {
			if len(calls) < 100 || refused {
				return false
			}
			refused = true
			w.WriteHeader(status)
			_, _ = io.WriteString(w, c.In[1])
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
			t.Errorf("batches of %d, an hour later of %d, want %d and 100", size, node.BatchSize(), want)
		}
	})
}
