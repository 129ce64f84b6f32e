package simulation_test

import (
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"remit/internal/simulation"
)

// TestReplay: a seed is worth something only if it does the same every time.
func TestReplay(t *testing.T) {
	for s := *from; s < *from+inRace[uint64](40, 200); s++ {
		trace := func() (lines []string) {
			synctest.Test(t, func(*testing.T) {
				simulation.Simulate(s, simulation.Reduction{}, func(l string) { lines = append(lines, l) })
			})
			return lines
		}
		first := trace()
		if diff := cmp.Diff(first, trace()); diff != "" {
			t.Fatalf("seed %d went two ways:\n%s", s, diff)
		}
	}
}
