package stats_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"remit/bench/stats"
)

func TestPercentileIsAlwaysAMeasuredValue(t *testing.T) {
	for _, row := range []struct {
		values  []float64
		p, want float64
	}{
		{nil, 50, 0},
		{[]float64{7}, 0, 7},
		{[]float64{7}, 100, 7},
		{[]float64{4, 1, 3, 2}, 50, 2},    // half do not exceed it
		{[]float64{4, 1, 3, 2}, 51, 3},    // two of four are not 51 %
		{[]float64{4, 1, 3, 2}, 75, 3},    //
		{[]float64{4, 1, 3, 2}, 99, 4},    //
		{[]float64{4, 1, 3, 2}, 100, 4},   //
		{[]float64{5, 5, 5, 9}, 75, 5},    // equal values count each
		{[]float64{-1, -3, -2}, 33.3, -3}, // order by value, not by size
	} {
		if got := stats.Percentile(row.values, row.p); got != row.want {
			t.Errorf("Percentile(%v, %v) = %v; want %v", row.values, row.p, got, row.want)
		}
	}
}

func TestPercentileLeavesItsInputAlone(t *testing.T) {
	values := []float64{3, 1, 2}
	stats.Median(values)
	if diff := cmp.Diff([]float64{3, 1, 2}, values); diff != "" {
		t.Error(diff)
	}
}

func TestMeanAndRatio(t *testing.T) {
	if got := stats.Mean([]float64{1, 2, 6}); got != 3 {
		t.Errorf("Mean = %v; want 3", got)
	}
	if got := stats.Mean(nil); got != 0 {
		t.Errorf("Mean of nothing = %v; want 0", got)
	}
	if got := stats.Ratio(6, 4); got != 1.5 {
		t.Errorf("Ratio(6, 4) = %v; want 1.5", got)
	}
	if got := stats.Ratio(6, 0); got != 0 {
		t.Errorf("Ratio(6, 0) = %v; want 0", got)
	}
}

func TestMillis(t *testing.T) {
	got := stats.Millis([]time.Duration{time.Second, 1500 * time.Microsecond})
	if diff := cmp.Diff([]float64{1000, 1.5}, got); diff != "" {
		t.Error(diff)
	}
}
