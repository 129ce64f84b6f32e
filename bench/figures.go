package main

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
)

// A figure is one picture of results.
type figure struct {
	file, title string
	of          string   // the selector of its results
	x           string   // the key along the axis of x, or of the bars
	series      string   // the key of its series; "" makes each unit a series
	units       []string // of y
	bars        bool     // stacked bars instead of lines on logarithmic axes
}

var figures = []figure{
	{"coldstart.svg", "Init of functions, ms", "Coldstart", "function", "", []string{"init-ms"}, true},
	{"post-4-50.svg", "Payments a second; store / RPC 4 / 50 ms away", "Post/rpc=50ms", "clients", "payer", []string{"payments/s"}, false},
	{"post-0-0.svg", "Payments a second; store / RPC 0 / 0 ms away", "Post/rpc=0s", "clients", "payer", []string{"payments/s"}, false},
	{"post-latency.svg", "Median latency, ms; store / RPC 4 / 50 ms away", "Post/rpc=50ms", "clients", "payer", []string{"p50-ms"}, false},
	{"store.svg", "DynamoDB units of a payment", "Store", "function", "", []string{"writes", "reads"}, true},
	{"cost.svg", "Dollars a month at ten million payments", "Cost", "line", "", []string{"dollars at 10000000"}, true},
}

// A point is one value of a figure.
type point struct {
	series, x string
	y         float64
}

// points returns the values of a figure, none if they were not measured.
func (f figure) points(r *results) (all []point) {
	for _, unit := range f.units {
		for _, w := range r.rows {
			if y, ok := w.value[unit]; ok && w.match(f.of) && w.key[f.x] != "" {
				series := unit
				if f.series != "" {
					series = w.key[f.series]
				}
				all = append(all, point{series, w.key[f.x], y})
			}
		}
	}
	return all
}

// save draws the figure to dir, or nothing without results.
func (f figure) save(r *results, dir string) error {
	points := f.points(r)
	if points == nil {
		return nil
	}
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Legend.Top = f.title, f.x, true
	var names, xs []string
	for _, pt := range points {
		if !slices.Contains(names, pt.series) {
			names = append(names, pt.series)
		}
		if !slices.Contains(xs, pt.x) {
			xs = append(xs, pt.x)
		}
	}
	if f.bars {
		p.NominalY(xs...)
		p.X.Label.Text = ""
	} else {
		p.Legend.Left = true
		p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
		p.X.Tick.Marker, p.Y.Tick.Marker = plot.LogTicks{Prec: -1}, plot.LogTicks{Prec: -1}
	}
	var below *plotter.BarChart
	for i, name := range names {
		var line plotter.XYs
		var heights plotter.Values
		for _, pt := range points {
			if pt.series == name {
				x, _ := strconv.ParseFloat(pt.x, 64)
				line, heights = append(line, plotter.XY{X: x, Y: pt.y}), append(heights, pt.y)
			}
		}
		if !f.bars {
			l, dots, err := plotter.NewLinePoints(line)
			if err != nil {
				return err
			}
			l.Color, dots.Color = plotutil.Color(i), plotutil.Color(i)
			p.Add(l, dots)
			p.Legend.Add(name, l, dots)
			continue
		}
		chart, err := plotter.NewBarChart(heights, vg.Points(10))
		if err != nil {
			return err
		}
		chart.Horizontal, chart.Color = true, plotutil.Color(i)
		if below != nil {
			chart.StackOn(below)
		}
		below = chart
		p.Add(chart)
		p.Legend.Add(name, chart)
	}
	w, err := p.WriterTo(7*vg.Inch, 4*vg.Inch, "svg")
	if err != nil {
		return err
	}
	out, err := os.Create(filepath.Join(dir, f.file))
	if err != nil {
		return err
	}
	if _, err := w.WriteTo(out); err != nil {
		return err
	}
	return out.Close()
}
