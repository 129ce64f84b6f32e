package payment

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/remit-payouts/remit/internal/proof/must"
)

var update = flag.Bool("update", false, "rewrite golden files")

// TestDiagram keeps docs/payment-states.md equal to moves. Redraw it with go test ./internal/payments/payment -update.
func TestDiagram(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Payment states\n\nGenerated from `moves` in internal/payments/payment/state.go by `go test " +
		"./internal/payments/payment -update`.\n\n")
	b.WriteString("```mermaid\nstateDiagram-v2\n  [*] --> PREPARED\n  [*] --> PROPOSED\n")
	for _, from := range States() {
		for _, to := range moves[from] {
			fmt.Fprintf(&b, "  %s --> %s\n", from, to)
		}
		if len(moves[from]) == 0 {
			fmt.Fprintf(&b, "  %s --> [*]\n", from)
		}
	}
	b.WriteString("```\n\n| state | merchants see |\n| --- | --- |\n")
	for _, s := range States() {
		seen := string(s.Status())
		switch {
		case s == Prepared:
			seen = "nothing yet"
		case !s.Signed():
			seen = "its proposal"
		}
		fmt.Fprintf(&b, "| %s | %s |\n", s, seen)
	}
	b.WriteString("\nA pending payment's [progress](payments.md#follow-a-payment) is no state: it is derived when it is read, and may go " +
		"back.\n")

	const file = "../../../docs/payment-states.md"
	if *update {
		must.OK(t, os.WriteFile(file, []byte(b.String()), 0o666))
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != b.String() {
		t.Errorf("%s is out of date; run go test ./internal/payments/payment -update (%v)", file, err)
	}
}
