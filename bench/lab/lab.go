// Package lab holds the equipment that several benchmarks share: processes that
// are started and killed, endpoints that receive webhooks, a reader of the
// chain's transfers, and quantiles.
package lab

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/aclements/go-moremath/stats"
	"golang.org/x/sync/errgroup"
)

// Root is the module's directory, as seen from the directory of a benchmark.
const Root = "../.."

// Payee receives the payments of every benchmark: an address without a key.
const Payee = "0x2222222222222222222222222222222222222222"

// Base is the amount of a load's payment number 0, in the token's smallest unit.
// Payment n asks for Base+n, so the chain alone tells which payment a transfer is.
const Base = 1_000_000

// Quantile returns the q-quantile of values, 0 for no values. q is from 0 to 1.
func Quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	return stats.Sample{Xs: values}.Quantile(q)
}

// Millis returns a duration in milliseconds.
func Millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Sleep waits for d, or less if ctx ends.
func Sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// Each calls do for 0 to n-1, at most width calls at a time, and returns the
// first error. After an error no further call begins.
func Each(ctx context.Context, width, n int, do func(ctx context.Context, i int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(width)
	for i := 0; i < n && ctx.Err() == nil; i++ {
		g.Go(func() error { return do(ctx, i) })
	}
	return g.Wait()
}

// Report sets the metrics of a benchmark by their units, without the time of an
// iteration.
func Report(b *testing.B, metrics map[string]float64) {
	b.ReportMetric(0, "ns/op")
	for unit, value := range metrics {
		b.ReportMetric(value, unit)
	}
}

// Emit adds a result of its own to a benchmark, for a measurement that is not a
// loop. name is "key=value" parts with slashes between them; a space becomes "_".
func Emit(b *testing.B, name string, metrics map[string]float64) {
	b.Run(strings.ReplaceAll(name, " ", "_"), func(b *testing.B) { Report(b, metrics) })
}
