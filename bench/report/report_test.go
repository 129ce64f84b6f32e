package report_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"remit/bench/report"
)

func TestNumberWritesNoMoreDigitsThanWereMeant(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 7: "7", 1234567: "1234567", 1234.56: "1235", 99.94: "99.9", 12.34: "12.3", 1.234: "1.23", 0.5: "0.50", 0.01234: "0.0123", -2.5: "-2.50",
	} {
		if got := report.Number(v); got != want {
			t.Errorf("Number(%v) = %q; want %q", v, got, want)
		}
	}
}

func TestTargetsAreMetAtTheirLimit(t *testing.T) {
	var r report.Result
	r.AtMost("a", "%.1f ms", 2, 2)
	r.AtMost("b", "%.1f ms", 2.01, 2)
	r.Because("it is %s", "slow")
	r.AtLeast("c", "%.0f", 2, 2)
	r.Because("never said: it is met")
	want := []report.Target{
		{What: "a", Limit: "≤ 2.0 ms", Got: "2.0 ms", Met: true},
		{What: "b", Limit: "≤ 2.0 ms", Got: "2.0 ms", Why: "it is slow"},
		{What: "c", Limit: "≥ 2", Got: "2", Met: true},
	}
	if diff := cmp.Diff(want, r.Targets); diff != "" {
		t.Error(diff)
	}
}

func TestAResultComesBackAsItWasSaved(t *testing.T) {
	dir := t.TempDir()
	if _, err := report.Load(dir, "post"); !errors.Is(err, report.ErrNone) {
		t.Errorf("loading nothing: %v; want ErrNone", err)
	}
	r := &report.Result{Name: "post", Title: "POST", Plots: []report.Plot{{File: "post.svg", Caption: "c", SVG: "<svg/>"}}}
	r.Figure("x_ms", 1.5)
	if err := r.Save(dir); err != nil {
		t.Fatal(err)
	}
	got, err := report.Load(dir, "post")
	if err != nil {
		t.Fatal(err)
	}
	r.Plots[0].SVG = "" // in a file of its own
	if diff := cmp.Diff(r, got); diff != "" {
		t.Error(diff)
	}
}

func TestPageSaysWhatIsMissedAndWhy(t *testing.T) {
	r := &report.Result{Name: "post", Title: "POST", Tables: []report.Table{{Title: "T", Head: []string{"n", "ms"}, Rows: [][]string{{"1", "2.5"}}}}}
	r.AtMost("fast", "%.0f", 3, 2)
	r.Because("Because of the moon.")
	r.AtMost("small", "%.0f", 1, 2)
	page := report.Page([]*report.Result{r}, "plots")
	for _, part := range []string{"1 of 2 targets are met", "- **fast**: 3, wanted ≤ 2. Because of the moon.", "## POST", "| n | ms |\n| --- | ---: |\n| 1 | 2.5 |"} {
		if !strings.Contains(page, part) {
			t.Errorf("the page does not say %q:\n%s", part, page)
		}
	}
}
