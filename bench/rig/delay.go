package rig

import (
	"context"
	"maps"
	"net/http"
	"remit/internal/interpose"
	"remit/internal/store"
	"sync"
	"sync/atomic"
	"time"
)

// Calls counts by name. It is safe for concurrent use.
type Calls struct {
	mu sync.Mutex
	n  map[string]int
}

// Add counts a call.
func (c *Calls) Add(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[string]int{}
	}
	c.n[name]++
}

// Take returns the counts and begins anew.
func (c *Calls) Take() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := maps.Clone(c.n)
	c.n = nil
	return n
}

// Total sums counts.
func Total(n map[string]int) int {
	total := 0
	for _, v := range n {
		total += v
	}
	return total
}

// Delayed returns a store with every call counted and answered after delay, as a
// database's over a network is.
func Delayed(within store.Store, delay time.Duration, calls *Calls) store.Store {
	return &interpose.Store{Store: within, Around: func(ctx context.Context, c interpose.Call, apply func(context.Context)) error {
		calls.Add(c.Op)
		pass(delay)
		apply(ctx)
		return nil
	}}
}

// pass lets time go by.
func pass(d time.Duration) {
	if d > 0 {
		time.Sleep(d)
	}
}

// A Wire carries requests to a node: it counts them and delays each.
type Wire struct {
	Next  http.RoundTripper
	Delay time.Duration

	requests atomic.Int64
	bytes    atomic.Int64
}

// RoundTrip implements http.RoundTripper.
func (w *Wire) RoundTrip(r *http.Request) (*http.Response, error) {
	w.requests.Add(1)
	w.bytes.Add(max(r.ContentLength, 0))
	pass(w.Delay)
	return w.Next.RoundTrip(r)
}

// Take returns how many requests were made and begins anew.
func (w *Wire) Take() int { return int(w.requests.Swap(0)) }

// Hints are check-receipts' hints: counted, delayed, and of no effect.
type Hints struct {
	Calls *Calls
	Delay time.Duration
}

// Hint implements dispatch.Hinter.
func (h Hints) Hint(context.Context) error {
	h.Calls.Add("Hint")
	pass(h.Delay)
	return nil
}
