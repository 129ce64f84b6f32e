package main

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/perf/benchfmt"
	"golang.org/x/perf/benchmath"
	"gopkg.in/yaml.v3"
)

// A row is one result: the medians of all runs of one benchmark.
type row struct {
	base   string   // "Post", of BenchmarkPost/clients=64
	keys   []string // "clients", in the order of the name
	key    map[string]string
	units  []string
	values map[string][]float64 // of each run, by unit
}

// newRow returns a row of a result's name, with one value of each unit.
func newRow(name string, values map[string]float64) *row {
	base, parts := benchfmt.Name(name).Parts()
	w := &row{base: string(base), key: map[string]string{}, values: map[string][]float64{}}
	for _, part := range parts {
		if key, value, ok := strings.Cut(strings.TrimPrefix(string(part), "/"), "="); ok {
			w.keys, w.key[key] = append(w.keys, key), value
		}
	}
	for unit, v := range values {
		w.units, w.values[unit] = append(w.units, unit), []float64{v}
	}
	slices.SortFunc(w.units, func(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) })
	return w
}

// summary returns the median of a unit, NaN without one, and its confidence
// interval, which is empty after one run.
func (w *row) summary(unit string) (median float64, interval string) {
	values := w.values[unit]
	if values == nil {
		return math.NaN(), ""
	}
	s := benchmath.AssumeNothing.Summary(benchmath.NewSample(slices.Clone(values), &benchmath.DefaultThresholds), 0.95)
	if len(values) > 1 {
		interval = " ± " + s.PctRangeString()
	}
	return s.Center, interval
}

// match reports whether the row is of a selector such as "Post/clients=64", which
// names the base and some of its keys.
func (w *row) match(selector string) bool {
	of := newRow(selector, nil)
	for key, value := range of.key {
		if w.key[key] != value {
			return false
		}
	}
	return w.base == of.base
}

// results are the rows of all files, the conditions of each base, and the targets.
type results struct {
	rows       []*row
	conditions map[string]string
	targets    []target
}

// readResults reads the files of benchmark results in a directory, and the targets.
func readResults(dir string) (*results, error) {
	r, byName := &results{conditions: map[string]string{}}, map[string]*row{}
	d := yaml.NewDecoder(bytes.NewReader(targetsText))
	d.KnownFields(true)
	if err := d.Decode(&r.targets); err != nil {
		return nil, fmt.Errorf("reading targets.yaml: %w", err)
	}
	paths, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		return nil, err
	}
	files := benchfmt.Files{Paths: paths}
	for files.Scan() {
		rec, ok := files.Result().(*benchfmt.Result)
		if wrong, bad := files.Result().(*benchfmt.SyntaxError); bad {
			return nil, wrong
		} else if !ok {
			continue
		}
		w := byName[rec.Name.String()]
		if w == nil {
			w = newRow(rec.Name.String(), nil)
			byName[rec.Name.String()], r.rows = w, append(r.rows, w)
		}
		for _, v := range rec.Values {
			value, unit := v.Value, v.Unit
			if v.OrigUnit != "" { // before "MB" became "B"
				value, unit = v.OrigValue, v.OrigUnit
			}
			if w.values[unit] == nil {
				w.units = append(w.units, unit)
			}
			w.values[unit] = append(w.values[unit], value)
		}
		config := rec.GetConfig
		r.conditions[w.base] = fmt.Sprintf("*%s; %s, %s cores, %s/%s, %s, load before %s; %s*\n\n", config("date"), config("cpu"), config("cores"),
			config("goos"), config("goarch"), config("go"), config("load"), config("took"))
	}
	return r, files.Err()
}

// value returns the largest median of a unit among the rows of a selector, and NaN
// without one.
func (r *results) value(selector, unit string) float64 {
	largest := math.NaN()
	for _, w := range r.rows {
		if v, _ := w.summary(unit); w.match(selector) && !(v <= largest) && !math.IsNaN(v) {
			largest = v
		}
	}
	return largest
}

// A target is a limit of one measured value, as targets.yaml explains.
type target struct {
	Section, Name string
	Sign          string // "≤" or "≥"
	Limit         float64
	Format        string
	Of, Unit, Per string
}

//go:embed targets.yaml
var targetsText []byte

// judge returns the value of a target and the verdict on it.
func (t target) judge(r *results) (got, verdict string) {
	v := r.value(t.Of, t.Unit)
	if t.Per != "" {
		v /= r.value(t.Per, t.Unit)
	}
	switch {
	case math.IsNaN(v):
		return "", "not measured"
	case t.Sign == "≤" && v <= t.Limit, t.Sign == "≥" && v >= t.Limit:
		return fmt.Sprintf(t.Format, v), "met"
	default:
		return fmt.Sprintf(t.Format, v), "**missed**"
	}
}
