// Package hooks measures webhooks: ten thousand of them to a hundred endpoints,
// of which some hang and some refuse, beside the same without those.
package hooks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"remit/bench/lab"
)

// Say tells progress, a line a time.
type Say func(format string, args ...any)

const (
	merchants    = 10
	perMerchant  = 10 // endpoints: as many as one may have
	arriveWithin = 90 * time.Second
)

// errMissing reports events that did not arrive.
var errMissing = errors.New("events did not arrive")

// A trial is one load with some bad endpoints.
type trial struct {
	hanging, refusing int
	payments          int // of each merchant
}

// An outcome is what a trial came to.
type outcome struct {
	trial
	delays  []float64 // seconds, of the healthy endpoints
	repeats int       // healthy arrivals beyond the first of an event
	took    time.Duration
	peak    float64 // MB resident of the server
}

// kindOf spreads the bad endpoints over the merchants.
func (t trial) kindOf(n int) kind {
	switch pendingTx := n % perMerchant; {
	case pendingTx == 0 && n/perMerchant < t.hanging:
		return hanging
	case pendingTx == 1 && n/perMerchant < t.refusing:
		return refusing
	default:
		return healthy
	}
}

// run starts a server, registers the endpoints, makes the payments, and waits
// until every healthy endpoint has every event of its merchant.
func (t trial) run(ctx context.Context, remit, dir string) (*outcome, error) {
	log, err := os.Create(filepath.Join(dir, "hooks.log"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	server, lines, err := lab.Launch(ctx, log, "Ctrl-C", remit, "local", "--listen", "127.0.0.1:0", "--chain-listen", "127.0.0.1:0",
		"--block-time", "1s", "--wallets", "16")
	if err != nil {
		return nil, err
	}
	defer server.Kill()
	url := ""
	for _, l := range lines {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(l), "API "); ok {
			url = strings.TrimSpace(rest)
		}
	}
	var receivers []*receiver
	defer func() {
		for _, r := range receivers {
			_ = r.server.Close()
		}
	}()
	begin := time.Now()
	var paying sync.WaitGroup
	var mu sync.Mutex
	var failed error
	for n := range merchants {
		m := lab.NewMerchant(url)
		theirs, err := t.join(ctx, m, n)
		receivers = append(receivers, theirs...)
		if err != nil {
			return nil, err
		}
		paying.Go(func() {
			err := t.pay(ctx, m)
			mu.Lock()
			failed = errors.Join(failed, err)
			mu.Unlock()
		})
	}
	paying.Wait()
	if failed != nil {
		return nil, failed
	}
	o := &outcome{trial: t}
	if err := t.await(ctx, receivers); err != nil {
		return nil, err
	}
	o.took = time.Since(begin)
	server.Kill()
	_, peak := server.Usage()
	o.peak = float64(peak) / 1e6
	for _, r := range receivers {
		if r.kind != healthy {
			continue
		}
		r.mu.Lock()
		for _, d := range r.delays {
			o.delays = append(o.delays, d.Seconds())
		}
		for _, times := range r.seen {
			o.repeats += times - 1
		}
		r.mu.Unlock()
	}
	return o, nil
}

// join makes a merchant and its endpoints.
func (t trial) join(ctx context.Context, m *lab.Merchant, n int) ([]*receiver, error) {
	if err := m.Join(ctx); err != nil {
		return nil, err
	}
	var theirs []*receiver
	for i := range perMerchant {
		r, err := open(ctx, t.kindOf(n*perMerchant+i))
		if err != nil {
			return theirs, err
		}
		theirs = append(theirs, r)
		a, err := m.Call(ctx, "POST", "/webhooks", fmt.Sprintf(`{"url":%q}`, r.url), "")
		if err != nil || a.Status != 201 {
			return theirs, fmt.Errorf("registering a webhook: %d %w", a.Status, err)
		}
	}
	return theirs, nil
}

// pay makes the merchant's payments, four at a time.
func (t trial) pay(ctx context.Context, m *lab.Merchant) error {
	work := make(chan int)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var failed error
	for range 4 {
		wg.Go(func() {
			for n := range work {
				a, err := m.Pay(ctx, fmt.Sprint("order-", n), uint64(1000+n))
				if err == nil && a.Status != 201 {
					err = fmt.Errorf("a payment was refused: %d %s", a.Status, a.Body.Code)
				}
				mu.Lock()
				failed = errors.Join(failed, err)
				mu.Unlock()
			}
		})
	}
	for n := range t.payments {
		work <- n
	}
	close(work)
	wg.Wait()
	return failed
}

// await waits until the healthy endpoints have everything.
func (t trial) await(ctx context.Context, receivers []*receiver) error {
	deadline := time.Now().Add(arriveWithin)
	for {
		missing := 0
		for _, r := range receivers {
			if r.kind == healthy {
				missing += t.payments - r.count()
			}
		}
		if missing == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%w: %d", errMissing, missing)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}
