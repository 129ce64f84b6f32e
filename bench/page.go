package main

import (
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
)

// block is a part of the page that this command writes. People write the rest.
var block = regexp.MustCompile(`(?s)(<!-- results: (\w+) -->\n).*?(<!-- end -->)`)

// fill returns the page with its blocks written anew.
func (r *results) fill(page string) string {
	return block.ReplaceAllStringFunc(page, func(old string) string {
		part := block.FindStringSubmatch(old)
		text := r.verdicts()
		if part[2] != "targets" {
			text = r.section(part[2])
		}
		return part[1] + "\n" + text + part[3]
	})
}

// verdicts is the table of all targets.
func (r *results) verdicts() string {
	met, rows := 0, [][]string{{"target", "limit", "measured", "", "section"}}
	for _, t := range r.targets {
		got, verdict := t.judge(r)
		if verdict == "met" {
			met++
		}
		rows = append(rows, []string{t.Name, t.Sign + " " + fmt.Sprintf(t.Format, t.Limit), got, verdict, t.Section})
	}
	return fmt.Sprintf("%d of %d targets are met.\n\n", met, len(r.targets)) + markdown(rows)
}

// section is the conditions, tables and figures of one base. Its results with the
// same keys share a table.
func (r *results) section(base string) string {
	text := r.conditions[base]
	var tables [][]*row
	for _, w := range r.rows {
		if w.base != base {
			continue
		}
		i := slices.IndexFunc(tables, func(rows []*row) bool { return slices.Equal(rows[0].keys, w.keys) })
		if i < 0 {
			i, tables = len(tables), append(tables, nil)
		}
		tables[i] = append(tables[i], w)
	}
	for _, rows := range tables {
		keys, units := rows[0].keys, []string(nil)
		for _, w := range rows {
			for _, unit := range w.units {
				if !slices.Contains(units, unit) {
					units = append(units, unit)
				}
			}
		}
		lines := [][]string{slices.Concat(keys, units)}
		for _, w := range rows {
			var cells []string
			for _, key := range keys {
				cells = append(cells, strings.ReplaceAll(w.key[key], "_", " "))
			}
			for _, unit := range units {
				v, interval := w.summary(unit)
				cells = append(cells, number(v)+interval)
			}
			lines = append(lines, cells)
		}
		text += markdown(lines)
	}
	for _, f := range figures {
		if f.base == base {
			text += fmt.Sprintf("![%s](../%s)\n\n", f.title, filepath.Join(resultsDir, f.file))
		}
	}
	return text
}

// markdown is a table of rows, the first of which is its head. Numbers stand to
// the right.
func markdown(rows [][]string) string {
	rows = slices.Insert(slices.Clone(rows), 1, append([]string{"---"}, slices.Repeat([]string{"---:"}, len(rows[0])-1)...))
	text := ""
	for _, cells := range rows {
		text += "| " + strings.Join(cells, " | ") + " |\n"
	}
	return text + "\n"
}

// number writes a measured value with three significant digits, or all before the
// point, and at most four behind it; NaN is empty.
func number(v float64) string {
	switch digits := 2 - int(math.Floor(math.Log10(math.Abs(v)))); {
	case math.IsNaN(v):
		return ""
	case v == math.Trunc(v) || digits <= 0:
		return fmt.Sprintf("%.0f", v)
	default:
		return fmt.Sprintf("%.*f", min(digits, 4), v)
	}
}

// A figure is a picture of results: lines over the key x, one for each value of by.
type figure struct{ file, title, base, of, unit, x, by string }

var figures = []figure{
	{"post-4-50.svg", "Payments a second; store / RPC 4 / 50 ms away", "Post", "Post/rpc=50ms", "payments/s", "clients", "payer"},
	{"post-0-0.svg", "Payments a second; store / RPC 0 / 0 ms away", "Post", "Post/rpc=0s", "payments/s", "clients", "payer"},
	{"post-latency.svg", "Median latency, ms; store / RPC 4 / 50 ms away", "Post", "Post/rpc=50ms", "p50-ms", "clients", "payer"},
	{"scale-p99.svg", "POST p99, ms, by payments a second; 1,000 merchants", "Scale", "Scale/load=planned/merchants=1000", "p99-ms", "rate", "chain"},
	{"scale-made.svg", "Payments made of those asked for, %, by payments a second; 1,000 merchants", "Scale", "Scale/load=planned/merchants=1000", "made-%", "rate", "chain"},
	{"scale-confirmed.svg", "Seconds until confirmed, by payments a second; 1,000 merchants", "Scale", "Scale/load=planned/merchants=1000", "confirmed-s", "rate", "chain"},
	{"scale-delivered.svg", "Seconds from confirmed to delivered, p99, by payments a second; 1,000 merchants", "Scale", "Scale/load=planned/merchants=1000", "delivered-p99-s", "rate", "chain"},
	{"scale-calls.svg", "Calls of a node for each payment, by payments a second; 1,000 merchants", "Scale", "Scale/load=planned/merchants=1000", "calls/payment", "rate", "chain"},
	{"scale-units.svg", "Write units of each payment, by payments a second; 1,000 merchants", "Scale", "Scale/load=planned/merchants=1000", "writes/payment", "rate", "chain"},
	{"scale-wallets.svg", "Payments made of those asked for, %, by wallets; 500 a second on Base, 350 on Polygon, 60 on Ethereum", "Scale", "Scale/load=so_many_wallets", "made-%", "wallets", "chain"},
}

// save draws the figure to a file in dir.
func (f figure) save(r *results, dir string) error {
	p, lines := plot.New(), map[string]plotter.XYs{}
	p.Title.Text, p.X.Label.Text, p.Legend.Top, p.Legend.Left = f.title, f.x, true, true
	p.X.Scale, p.Y.Scale, p.X.Tick.Marker, p.Y.Tick.Marker = plot.LogScale{}, plot.LogScale{}, plot.LogTicks{Prec: -1}, plot.LogTicks{Prec: -1}
	for _, w := range r.rows {
		if y, _ := w.summary(f.unit); w.match(f.of) && y > 0 {
			x, _ := strconv.ParseFloat(w.key[f.x], 64)
			lines[w.key[f.by]] = append(lines[w.key[f.by]], plotter.XY{X: x, Y: y})
		}
	}
	var all []any
	for _, payer := range slices.Sorted(maps.Keys(lines)) {
		all = append(all, payer, lines[payer])
	}
	if err := plotutil.AddLinePoints(p, all...); err != nil {
		return err
	}
	return p.Save(7*vg.Inch, 4*vg.Inch, filepath.Join(dir, f.file))
}
