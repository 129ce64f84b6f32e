package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"remit/bench/cost"
)

// block is a part of the page that this command writes; the rest is by hand.
var block = regexp.MustCompile(`(?s)(<!-- results: (\w+) -->\n).*?(<!-- end -->)`)

// writePage writes every block of the page from the results there are, and the
// figures, and prints the verdicts on the targets.
func writePage() error {
	r, err := readResults(resultsDir)
	if err != nil {
		return err
	}
	template, err := os.ReadFile("template.yaml")
	if err != nil {
		return err
	}
	stack, err := cost.Parse(template)
	if err != nil {
		return err
	}
	r.addCost(stack)
	for _, f := range figures {
		if err := f.save(r, resultsDir); err != nil {
			return fmt.Errorf("drawing %s: %w", f.file, err)
		}
	}
	old, err := os.ReadFile(pagePath)
	if err != nil {
		return err
	}
	fmt.Print(r.targets())
	return os.WriteFile(pagePath, []byte(r.fill(string(old))), 0o644)
}

// fill returns the page with its blocks written anew.
func (r *results) fill(page string) string {
	return block.ReplaceAllStringFunc(page, func(old string) string {
		part := block.FindStringSubmatch(old)
		text := r.targets()
		if part[2] != "targets" {
			text = r.section(part[2])
		}
		return part[1] + "\n" + text + part[3]
	})
}

// targets is the table of all targets.
func (r *results) targets() string {
	met, rows := 0, [][]string{{"target", "limit", "measured", "", "section"}}
	for _, t := range targets {
		got, verdict := t.judge(r)
		if verdict == "met" {
			met++
		}
		rows = append(rows, []string{t.name, t.sign + " " + fmt.Sprintf(t.format, t.limit), got, verdict, t.section})
	}
	return fmt.Sprintf("%d of %d targets are met.\n\n", met, len(targets)) + markdown(rows)
}

// section is the conditions, tables and figures of one benchmark. Its results with
// the same keys share a table.
func (r *results) section(base string) string {
	var text strings.Builder
	if c, measured := r.conditions[base]; measured {
		fmt.Fprintf(&text, "*%s*\n\n", c)
	}
	var kinds []string
	byKind := map[string][]row{}
	for _, w := range r.rows {
		if kind := strings.Join(w.keys, " "); w.base == base {
			if byKind[kind] == nil {
				kinds = append(kinds, kind)
			}
			byKind[kind] = append(byKind[kind], w)
		}
	}
	for _, kind := range kinds {
		head := slices.Clone(byKind[kind][0].keys)
		keys := len(head)
		for _, w := range byKind[kind] {
			for _, unit := range w.units {
				if !slices.Contains(head[keys:], unit) {
					head = append(head, unit)
				}
			}
		}
		rows := [][]string{head}
		for _, w := range byKind[kind] {
			var cells []string
			for _, key := range head[:keys] {
				cells = append(cells, strings.ReplaceAll(w.key[key], "_", " "))
			}
			for _, unit := range head[keys:] {
				cell := ""
				if v, ok := w.value[unit]; ok {
					cell = number(v) + w.spread[unit]
				}
				cells = append(cells, cell)
			}
			rows = append(rows, cells)
		}
		text.WriteString(markdown(rows))
	}
	for _, f := range figures {
		if f.points(r) != nil && newRow(f.of, nil).base == base {
			fmt.Fprintf(&text, "![%s](../%s)\n\n", f.title, filepath.Join(resultsDir, f.file))
		}
	}
	return text.String()
}

// markdown is a table of rows, the first of which is its head. Numbers stand to
// the right.
func markdown(rows [][]string) string {
	var text strings.Builder
	for i, cells := range rows {
		fmt.Fprintf(&text, "| %s |\n", strings.Join(cells, " | "))
		if i == 0 {
			fmt.Fprintf(&text, "| --- |%s\n", strings.Repeat(" ---: |", len(cells)-1))
		}
	}
	return text.String() + "\n"
}

// number writes a measured value with three significant digits or all before the
// point.
func number(v float64) string {
	if digits := 2 - int(math.Floor(math.Log10(math.Abs(v)))); v != math.Trunc(v) && digits > 0 {
		return fmt.Sprintf("%.*f", min(digits, 4), v)
	}
	return fmt.Sprintf("%.0f", v)
}

// addCost adds the rows of the bills that the results come to on AWS, as the
// template deploys the stack.
func (r *results) addCost(stack cost.Stack) {
	p := cost.PaymentOf(r.value, r.value(farPost+"1/payer=4-wallets", "p50-ms")/1000)
	add := func(name string, values map[string]float64) {
		r.rows = append(r.rows, newRow("Cost/"+strings.ReplaceAll(name, " ", "_"), values))
	}
	for _, line := range cost.Bill(1, p, stack) {
		values := map[string]float64{}
		for _, m := range cost.Months {
			for _, l := range cost.Bill(m.Payments, p, stack.Under(m)) {
				if l.Name == line.Name {
					values[fmt.Sprintf("dollars at %.0f", m.Payments)] = l.Dollars
				}
			}
		}
		add("line="+line.Name, values)
	}
	for _, m := range cost.Months {
		add(fmt.Sprintf("payments=%.0f/stack=default", m.Payments), map[string]float64{"dollars/million": cost.PerMillion(m.Payments, p, stack.Under(m))})
		add(fmt.Sprintf("payments=%.0f/stack=tuned", m.Payments), map[string]float64{"dollars/million": cost.PerMillion(m.Payments, p, stack.Under(m).Tuned())})
	}
	for _, l := range cost.Levers {
		values := map[string]float64{}
		for _, m := range cost.Months {
			changed := stack.Under(m)
			l.Change(&changed)
			values[fmt.Sprintf("at %.0f", m.Payments)] = cost.PerMillion(m.Payments, p, changed) - cost.PerMillion(m.Payments, p, stack.Under(m))
		}
		add("lever="+l.Name, values)
	}
}
