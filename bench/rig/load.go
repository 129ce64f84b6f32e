package rig

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"sync"
	"syscall"
	"time"

	"remit/bench/stats"
)

// A Run is what a load came to.
type Run struct {
	Clients int
	Paid    int // answered 201
	Failed  int
	Why     string // one of the failures
	Took    time.Duration
	Latency []float64 // milliseconds, of what was paid
	CPU     float64   // milliseconds of this process's processor time per payment, clients and chain included
}

// PerSecond is the throughput.
func (r Run) PerSecond() float64 { return float64(r.Paid) / r.Took.Seconds() }

// P returns a percentile of the latency in milliseconds.
func (r Run) P(p float64) float64 { return stats.Percentile(r.Latency, p) }

// Load has so many clients make payments, each one after the other, for so
// long. What was begun is finished, and counts.
func Load(ctx context.Context, h http.Handler, clients int, length time.Duration) Run {
	run := Run{Clients: clients}
	name := rand.Text()
	var mu sync.Mutex
	var wg sync.WaitGroup
	begin, used := time.Now(), processor()
	for i := range clients {
		wg.Go(func() {
			var latency []float64
			failed, why := 0, ""
			for n := 0; time.Since(begin) < length && ctx.Err() == nil; n++ {
				at := time.Now()
				status, body := Pay(ctx, h, fmt.Sprintf("%s-%d-%d", name, i, n), uint64(1000+n))
				if status == http.StatusCreated {
					latency = append(latency, stats.InMillis(time.Since(at)))
				} else {
					failed, why = failed+1, fmt.Sprintf("%d %s", status, body)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			run.Latency = append(run.Latency, latency...)
			run.Failed += failed
			if why != "" {
				run.Why = why
			}
		})
	}
	wg.Wait()
	run.Took, run.Paid = time.Since(begin), len(run.Latency)
	run.CPU = stats.Ratio(stats.InMillis(processor()-used), float64(run.Paid))
	return run
}

// processor returns the processor time of this process so far.
func processor() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// Many has so many clients make exactly n payments. Every failure is an error.
func Many(ctx context.Context, h http.Handler, clients, n int) error {
	name := rand.Text()
	work := make(chan int)
	var mu sync.Mutex
	var failed error
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for i := range work {
				if status, body := Pay(ctx, h, fmt.Sprintf("%s-%d", name, i), uint64(1000+i)); status != http.StatusCreated {
					mu.Lock()
					failed = fmt.Errorf("payment %d: %d %s", i, status, body)
					mu.Unlock()
				}
			}
		})
	}
	for i := range n {
		work <- i
	}
	close(work)
	wg.Wait()
	return failed
}
