package simulation_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the table in docs/guarantees.md")

// TestGuarantees keeps the table of rules in docs/guarantees.md equal to the
// removals. Redraw it with
// go test ./internal/simulation -run TestGuarantees -update.
func TestGuarantees(t *testing.T) {
	const file, end = "../../docs/guarantees.md", "<!-- end -->"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), "-update -->\n")
	_, after, found := strings.Cut(rest, end)
	if !ok || !found {
		t.Fatalf("%s has no place for the table", file)
	}
	var table strings.Builder
	table.WriteString("\n| rule | in internal/ | without it falls |\n| --- | --- | --- |\n")
	seen := map[string]bool{}
	for _, r := range removals {
		if seen[r.rule] || r.falls == "" {
			t.Errorf("rule %q is there twice, or no test falls", r.rule)
		}
		seen[r.rule] = true
		fmt.Fprintf(&table, "| %s | %s | `%s` |\n", r.rule, r.file, r.falls)
	}
	want := before + "-update -->\n" + table.String() + "\n" + end + after
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o666); err != nil {
			t.Fatal(err)
		}
	} else if want != string(text) {
		t.Errorf("%s is out of date; run go test ./internal/simulation -run TestGuarantees -update", file)
	}
}
