//go:build !race

package simulation_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/remit-payouts/remit/internal/proof/simulation"
)

const raceDetector = false

// inOrder sorts the ends of runs that end together: their time is over at one instant, and
// nothing that they do then is an effect.
func inOrder(trace []string) []string {
	ends := func(line string) bool { return strings.Contains(line, " ends, with errors: ") }
	for i := 0; i < len(trace); i++ {
		j := i
		for j < len(trace) && ends(trace[j]) {
			j++
		}
		slices.Sort(trace[i:j])
		i = max(i, j-1)
	}
	return trace
}

// TestReplay: a seed is worth something only if it does the same every time. The race detector shuffles goroutines, and
// two passes that share a second look at finality then take turns by chance.
func TestReplay(t *testing.T) {
	for s := *from; s < *from+200; s++ {
		r := simulation.Reduction{Without: map[string]bool{simulation.SeveralWallets: true}}
		_, first := traced(t, s, r)
		_, second := traced(t, s, r)
		if diff := cmp.Diff(inOrder(first), inOrder(second)); diff != "" {
			t.Fatalf("seed %d went two ways:\n%s", s, diff)
		}
	}
}
