package report

import (
	"fmt"
	"io"
	"strings"
)

// Print writes the result for a terminal.
func (r *Result) Print(w io.Writer) {
	_, _ = fmt.Fprintf(w, "\n%s\n%s\n  %s\n", r.Title, strings.Repeat("═", len([]rune(r.Title))), r.Conditions)
	for _, t := range r.Tables {
		t.Print(w)
	}
	if len(r.Notes) > 0 {
		_, _ = fmt.Fprintln(w)
	}
	for _, n := range r.Notes {
		_, _ = fmt.Fprintf(w, "  · %s\n", n)
	}
	if len(r.Targets) > 0 {
		t := TargetTable(r.Targets)
		t.Print(w)
	}
}

// TargetTable lists targets.
func TargetTable(targets []Target) Table {
	t := Table{Title: "Targets", Head: []string{"target", "limit", "measured", ""}}
	for _, target := range targets {
		verdict := "met"
		if !target.Met {
			verdict = "MISSED"
		}
		t.Row(target.What, target.Limit, target.Got, verdict)
	}
	return t
}
