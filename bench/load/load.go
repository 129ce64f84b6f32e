// Package load measures `remit local` as a person runs it: one process with the
// store in memory and the embedded chain, a block a second, and merchants'
// servers that ask for payments over HTTP.
package load

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
	"remit/bench/report"
	"remit/bench/stats"
)

// Say tells progress, a line a time.
type Say func(format string, args ...any)

var (
	// errRefused reports a payment that was not answered 201.
	errRefused = errors.New("a payment was refused")
	// errAudit reports that the chain is not what clients were told.
	errAudit = errors.New("the chain says otherwise")
	// errNoURL reports a server that did not say where it serves.
	errNoURL = errors.New("no API line")
)

// A trial is one load.
type trial struct {
	wallets, clients, payments int
}

// outcome is what a trial came to.
type outcome struct {
	trial
	took      time.Duration
	latency   []float64 // milliseconds
	confirmed float64   // seconds from the last answer to all confirmed
	processor float64   // milliseconds per payment, chain, settlement and all
	peak      float64   // MB of resident memory
}

func (o outcome) perSecond() float64 { return float64(o.payments) / o.took.Seconds() }

// Run measures. remit is the binary, dir is for its log.
func Run(ctx context.Context, remit, dir string, quick bool, say Say) (*report.Result, error) {
	trials := []trial{{4, 8, 4000}, {4, 32, 15_000}, {16, 32, 15_000}}
	if quick {
		trials = []trial{{4, 8, 300}, {4, 32, 600}, {16, 32, 600}}
	}
	var all []outcome
	for _, t := range trials {
		o, err := t.run(ctx, remit, dir)
		if err != nil {
			return nil, fmt.Errorf("%d clients on %d wallets: %w", t.clients, t.wallets, err)
		}
		say("%d clients, %d wallets: %.0f payments/s, p50 %.1f ms, %.2f ms of processor each", t.clients, t.wallets,
			o.perSecond(), stats.Median(o.latency), o.processor)
		all = append(all, o)
	}
	return result(all), nil
}

// run starts a server, loads it, waits until every payment is confirmed, and
// compares the chain with what was answered.
func (t trial) run(ctx context.Context, remit, dir string) (outcome, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return outcome{}, err
	}
	log, err := os.Create(filepath.Join(dir, "load.log"))
	if err != nil {
		return outcome{}, err
	}
	defer func() { _ = log.Close() }()
	server, lines, err := lab.Launch(ctx, log, "Ctrl-C", remit, "local", "--listen", "127.0.0.1:0", "--chain-listen", "127.0.0.1:0",
		"--block-time", "1s", "--wallets", fmt.Sprint(t.wallets))
	if err != nil {
		return outcome{}, err
	}
	defer server.Kill()
	url := ""
	for _, l := range lines {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(l), "API "); ok {
			url = strings.TrimSpace(rest)
		}
	}
	if url == "" {
		return outcome{}, errNoURL
	}
	m := lab.NewMerchant(url)
	if err := m.Join(ctx); err != nil {
		return outcome{}, err
	}
	idle, err := lab.Processor(server.PID())
	if err != nil {
		return outcome{}, err
	}
	o := outcome{trial: t}
	hashes, err := o.pay(ctx, m)
	if err != nil {
		return o, err
	}
	begin := time.Now()
	if err := awaitConfirmed(ctx, m, hashes); err != nil {
		return o, err
	}
	o.confirmed = time.Since(begin).Seconds()
	busy, err := lab.Processor(server.PID())
	if err != nil {
		return o, err
	}
	o.processor = stats.InMillis(busy-idle) / float64(t.payments)
	if err := audit(ctx, m, hashes); err != nil {
		return o, err
	}
	server.Interrupt()
	_, peak := server.Usage()
	o.peak = float64(peak) / 1e6
	return o, nil
}

// base is the amount of the first payment; the others follow.
const base = 1_000_000

// pay makes the payments and returns their hashes by amount.
func (o *outcome) pay(ctx context.Context, m *lab.Merchant) (map[uint64]string, error) {
	work := make(chan int)
	hashes := make(map[uint64]string, o.payments)
	var mu sync.Mutex
	var failed error
	var wg sync.WaitGroup
	begin := time.Now()
	for range o.clients {
		wg.Go(func() {
			for n := range work {
				at := time.Now()
				a, err := m.Pay(ctx, fmt.Sprintf("order-%d", n), base+uint64(n))
				took := time.Since(at)
				if err == nil && a.Status != 201 {
					err = fmt.Errorf("%w: %d %s", errRefused, a.Status, a.Body.Code)
				}
				mu.Lock()
				failed = errors.Join(failed, err)
				hashes[base+uint64(n)] = a.Body.Hash
				o.latency = append(o.latency, stats.InMillis(took))
				mu.Unlock()
			}
		})
	}
	for n := range o.payments {
		work <- n
	}
	close(work)
	wg.Wait()
	o.took = time.Since(begin)
	return hashes, failed
}

// awaitConfirmed waits for all payments; it asks for each only until it is
// confirmed.
func awaitConfirmed(ctx context.Context, m *lab.Merchant, hashes map[uint64]string) error {
	for amount, hash := range hashes {
		for {
			a, err := m.Transaction(ctx, hash)
			if err != nil {
				return err
			}
			if a.Body.Status == "confirmed" {
				break
			}
			if a.Body.Status != "pending" {
				return fmt.Errorf("%w: payment of %d is %s", errAudit, amount, a.Body.Status)
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
	return nil
}

// audit counts transfers on the chain: each payment once, and none besides.
func audit(ctx context.Context, m *lab.Merchant, hashes map[uint64]string) error {
	scene, err := lab.SceneOf(ctx, m)
	if err != nil {
		return err
	}
	found, err := scene.Mined(ctx)
	if err != nil {
		return err
	}
	for amount := range hashes {
		if n := len(found[amount]); n != 1 {
			return fmt.Errorf("%w: payment of %d is mined %d times", errAudit, amount, n)
		}
	}
	if len(found) != len(hashes) {
		return fmt.Errorf("%w: %d transfers for %d payments", errAudit, len(found), len(hashes))
	}
	return nil
}

func result(all []outcome) *report.Result {
	r := &report.Result{Setup: "`remit local` as built, with a block a second and the store in memory, and clients in this process that share its cores: " +
		"each makes one payment after the other over HTTP. Processor time is the server's alone, with the chain it embeds, settlement and the waiting for the last confirmation. The chain's logs are then counted by amounts."}
	t := report.Table{Title: "remit local", Head: []string{"clients, wallets", "payments", "a second", "p50 ms", "p99 ms", "CPU ms each", "last confirmed after s", "peak MB"}}
	for _, o := range all {
		t.Row(fmt.Sprintf("%d, %d", o.clients, o.wallets), o.payments, o.perSecond(), stats.Median(o.latency), stats.Percentile(o.latency, 99), o.processor, o.confirmed, o.peak)
	}
	r.Tables = []report.Table{t}
	eight, four, sixteen := all[0], all[1], all[2]
	r.AtLeast("payments a second, 32 clients, 4 wallets", "%.0f", four.perSecond(), 200)
	r.AtLeast("payments a second, 32 clients, 16 wallets", "%.0f", sixteen.perSecond(), 400)
	r.AtMost("POST p50 at 8 clients, ms", "%.1f", stats.Median(eight.latency), 15)
	r.AtMost("processor time per payment, ms", "%.2f", max(four.processor, sixteen.processor), 2)
	r.Note("Every payment of every load was found on the chain exactly once: anything else ends the benchmark.")
	r.Note("At these rates confirmations trail the load, since settlement and the chain share two cores with it; 'last confirmed' is that backlog, two blocks of finality included.")
	return r
}
