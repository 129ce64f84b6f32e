package payment

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/remit-payouts/remit/internal/proof/must"
)

// TestDiagram: docs/payment-states.md has the moves and no other, and how merchants see each state.
func TestDiagram(t *testing.T) {
	doc := string(must.Get(os.ReadFile("../../../docs/payment-states.md"))(t))
	want := []string{"[*] --> PREPARED", "[*] --> PROPOSED"}
	for _, from := range States() {
		for _, to := range moves[from] {
			want = append(want, fmt.Sprintf("%s --> %s", from, to))
		}
		if len(moves[from]) == 0 {
			want = append(want, fmt.Sprintf("%s --> [*]", from))
		}
		seen := string(from.Status())
		if from == Prepared {
			seen = "nothing yet"
		} else if !from.Signed() {
			seen = "its proposal"
		}
		if row := fmt.Sprintf("| %s | %s |\n", from, seen); !strings.Contains(doc, row) {
			t.Errorf("there is no row %q", row)
		}
	}
	for _, arrow := range want {
		if !strings.Contains(doc, "\n  "+arrow+"\n") || strings.Count(doc, "-->") != len(want) {
			t.Errorf("%d arrows, want %d, of which one is %s", strings.Count(doc, "-->"), len(want), arrow)
		}
	}
}
