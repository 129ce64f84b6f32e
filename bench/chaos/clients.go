package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"remit/bench/lab"
)

// What clients do, in parts of a hundred.
const (
	hasty     = 10 // requests that are given up after a moment, as a phone that loses its network
	doubled   = 5  // payments asked for by two clients at once
	forgetful = 4  // payments never asked for again after the first failure
	doubtful  = 10 // payments asked for again after they were answered
)

// patience is how long a client waits for an answer unless it is hasty.
const patience = 40 * time.Second

// Clients are the load: merchants' servers that ask for payments and retry
// until they have an answer.
type clients struct {
	merchant *lab.Merchant
	book     *book
	pace     *time.Ticker // one order each
	requests atomic.Int64
	failures atomic.Int64

	mu      sync.Mutex
	refused map[string]int // answers that no retry changes, which nothing here may cause
}

// run is one client, until ordering ends; it then finishes its last payment
// unless ctx ends.
func (c *clients) run(ctx context.Context, ordering <-chan struct{}, draw *rand.Rand) {
	for {
		select {
		case <-ordering:
			return
		case <-ctx.Done():
			return
		case <-c.pace.C:
		}
		o := c.book.next()
		if draw.IntN(100) >= doubled {
			c.pursue(ctx, o, draw)
			continue
		}
		twin := rand.New(rand.NewPCG(draw.Uint64(), draw.Uint64()))
		var both sync.WaitGroup
		both.Go(func() { c.pursue(ctx, o, twin) })
		both.Go(func() { c.pursue(ctx, o, draw) })
		both.Wait()
	}
}

// pursue asks for a payment until it is answered for good.
func (c *clients) pursue(ctx context.Context, o *order, draw *rand.Rand) {
	forget := draw.IntN(100) < forgetful
	for try := 0; ctx.Err() == nil; try++ {
		if c.ask(ctx, o, draw) {
			if draw.IntN(100) < doubtful {
				c.ask(ctx, o, draw)
			}
			return
		}
		if forget {
			o.abandon()
			return
		}
		pause := time.Duration(50+draw.IntN(200)) * time.Millisecond << min(try, 3)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
	o.abandon()
}

// ask makes one request and reports whether it was answered for good.
func (c *clients) ask(ctx context.Context, o *order, draw *rand.Rand) bool {
	wait := patience
	if draw.IntN(100) < hasty {
		wait = time.Duration(1+draw.IntN(100)) * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	c.requests.Add(1)
	o.start(time.Now())
	a, err := c.merchant.Pay(ctx, o.key(), o.amount())
	switch {
	case err == nil && a.Status == http.StatusCreated:
		o.paid(a.Body.Hash, time.Now())
		return true
	case err == nil && a.Status < 500 && a.Status != http.StatusConflict:
		c.mu.Lock()
		c.refused[fmt.Sprintf("%d %s", a.Status, a.Body.Code)]++
		c.mu.Unlock()
		o.abandon()
		return true
	default:
		c.failures.Add(1)
		return false
	}
}
