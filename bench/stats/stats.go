// Package stats holds the few sums that figures are made of.
package stats

import (
	"math"
	"slices"
	"time"
)

// Percentile returns the smallest value that at least p percent of the values
// do not exceed (the nearest-rank method), so it is always one that was
// measured. It is 0 for no values; p is from 0 to 100.
func Percentile(values []float64, p float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// Median is the 50th percentile.
func Median(values []float64) float64 { return Percentile(values, 50) }

// Mean returns the arithmetic mean, 0 for no values.
func Mean(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// Ratio returns a over b, and 0 where b is 0: a ratio to nothing says nothing.
func Ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// Millis returns durations as milliseconds.
func Millis(durations []time.Duration) []float64 {
	ms := make([]float64, len(durations))
	for i, d := range durations {
		ms[i] = InMillis(d)
	}
	return ms
}

// InMillis returns a duration as milliseconds.
func InMillis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
