package report

import (
	"fmt"
	"strings"
)

// Page writes results as one page for people, with plots at the given path.
func Page(results []*Result, plots string) string {
	var b strings.Builder
	b.WriteString("# Performance\n\nWritten by `make bench` from `bench/results`; do not edit. `make cost` computes the bill alone, `make chaos` breaks a running stack, " +
		"`make profile` says where the time goes.\n\nWhat counts here are counts, and ratios of two things measured in the same run: seconds are those of the machine that each section names, " +
		"which was not idle where its load is above 0.5. Nothing was measured on AWS: what is far away there is injected as a delay, and Lambda's own start is not part of a cold start here.\n\n")
	glance(&b, results)
	behind(&b, results)
	for _, r := range results {
		r.section(&b, plots)
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

// glance lists every target.
func glance(b *strings.Builder, results []*Result) {
	met, all := 0, 0
	t := Table{Title: "Targets", Head: []string{"target", "limit", "measured", "", "section"}}
	for _, r := range results {
		for _, target := range r.Targets {
			verdict := "met"
			if all++; target.Met {
				met++
			} else {
				verdict = "**missed**"
			}
			t.Row(target.What, target.Limit, target.Got, verdict, r.Title)
		}
	}
	fmt.Fprintf(b, "## At a glance\n\n%d of %d targets are met.\n\n", met, all)
	t.Markdown(b)
}

// behind says why targets are missed.
func behind(b *strings.Builder, results []*Result) {
	var missed []string
	for _, r := range results {
		for _, target := range r.Targets {
			if !target.Met {
				missed = append(missed, fmt.Sprintf("- **%s**: %s, wanted %s. %s\n", target.What, target.Got, target.Limit, target.Why))
			}
		}
	}
	if len(missed) > 0 {
		fmt.Fprintf(b, "## Where we are behind, and why\n\n%s\n", strings.Join(missed, ""))
	}
}

func (r *Result) section(b *strings.Builder, plots string) {
	fmt.Fprintf(b, "## %s\n\n%s\n\n*%s; %s; %.0f s. `make bench ARGS=%s`*\n\n", r.Title, r.Setup, r.At.Format("2006-01-02 15:04 UTC"), r.Conditions, r.Took, r.Name)
	for _, t := range r.Tables {
		t.Markdown(b)
	}
	for _, p := range r.Plots {
		fmt.Fprintf(b, "![%s](%s/%s)\n\n", p.Caption, plots, p.File)
	}
	for _, n := range r.Notes {
		fmt.Fprintf(b, "- %s\n", n)
	}
	b.WriteString("\n")
}
