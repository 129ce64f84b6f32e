package report

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// A Table is rows of text under a head. The first column is a name and stands
// to the left, numbers to the right.
type Table struct {
	Title string     `json:"title"`
	Head  []string   `json:"head"`
	Rows  [][]string `json:"rows"`
}

// Row adds a row. A float is written with three significant digits or more.
func (t *Table) Row(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		switch v := c.(type) {
		case float64:
			row[i] = Number(v)
		default:
			row[i] = fmt.Sprint(v)
		}
	}
	t.Rows = append(t.Rows, row)
}

// Number writes a measured value: no more digits than it can have meant.
func Number(v float64) string {
	size := max(v, -v)
	switch {
	case v == float64(int64(v)) && size < 1e15:
		return fmt.Sprintf("%d", int64(v))
	case size >= 100:
		return fmt.Sprintf("%.0f", v)
	case size >= 10:
		return fmt.Sprintf("%.1f", v)
	case size >= 0.1:
		return fmt.Sprintf("%.2f", v)
	default:
		return fmt.Sprintf("%.4f", v)
	}
}

// Print writes t in columns for a terminal.
func (t *Table) Print(w io.Writer) {
	widths := make([]int, len(t.Head))
	for _, row := range append([][]string{t.Head}, t.Rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n  %s\n", t.Title)
	for n, row := range append([][]string{t.Head}, t.Rows...) {
		b.WriteString("  ")
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				b.WriteString(cell + pad)
			} else {
				b.WriteString("  " + pad + cell)
			}
		}
		b.WriteString("\n")
		if n == 0 {
			total := 0
			for _, width := range widths {
				total += width + 2
			}
			b.WriteString("  " + strings.Repeat("─", max(total-2, 0)) + "\n")
		}
	}
	_, _ = io.WriteString(w, b.String())
}

// Markdown writes t for a page.
func (t *Table) Markdown(w io.Writer) {
	var b strings.Builder
	fmt.Fprintf(&b, "**%s**\n\n| %s |\n| --- |%s\n", t.Title, strings.Join(t.Head, " | "), strings.Repeat(" ---: |", len(t.Head)-1))
	for _, row := range t.Rows {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
	}
	b.WriteString("\n")
	_, _ = io.WriteString(w, b.String())
}
