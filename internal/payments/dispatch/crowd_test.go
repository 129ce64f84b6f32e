package dispatch_test

import (
	"testing"

	"github.com/remit-payouts/remit/internal/payments/dispatch"
)

// TestCrowd: a process remembers a thousand merchants that had too many payments pending,
// however many there are.
func TestCrowd(t *testing.T) {
	for added, want := range map[int]int{1: 1, 1000: 1000, 1001: 1, 2500: 500} {
		if got := dispatch.Crowded(added); got != want {
			t.Errorf("of %d merchants %d are held, want %d", added, got, want)
		}
	}
}
