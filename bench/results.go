package main

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/perf/benchfmt"
	"golang.org/x/perf/benchmath"
)

// A row is one result: the median of the runs of one benchmark.
type row struct {
	base   string   // "Post", of BenchmarkPost/clients=64
	keys   []string // "clients", in the order of the name
	key    map[string]string
	units  []string
	value  map[string]float64
	spread map[string]string // "± 3%" with several runs
}

// results are all rows of all files.
type results struct {
	rows       []row
	conditions map[string]string // of each base, for people
}

// readResults reads the files of benchmark results in a directory.
func readResults(dir string) (*results, error) {
	r := &results{conditions: map[string]string{}}
	paths, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if err := r.read(path, text); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// read adds the rows of one file.
func (r *results) read(path string, text []byte) error {
	var names []string
	samples := map[string]map[string][]float64{} // by name and unit
	units := map[string][]string{}
	in := benchfmt.NewReader(bytes.NewReader(text), path)
	for in.Scan() {
		switch rec := in.Result().(type) {
		case *benchfmt.SyntaxError:
			return rec
		case *benchfmt.Result:
			name := rec.Name.String()
			if samples[name] == nil {
				names, samples[name] = append(names, name), map[string][]float64{}
			}
			for _, v := range rec.Values {
				value, unit := v.Value, v.Unit
				if v.OrigUnit != "" {
					value, unit = v.OrigValue, v.OrigUnit
				}
				if samples[name][unit] == nil {
					units[name] = append(units[name], unit)
				}
				samples[name][unit] = append(samples[name][unit], value)
			}
			config := rec.GetConfig
			r.conditions[string(rec.Name.Base())] = fmt.Sprintf("%s; %s, %s cores, %s/%s, %s, load before %s; %s", config("date"), config("cpu"), config("cores"),
				config("goos"), config("goarch"), config("go"), config("load"), config("took"))
		}
	}
	for _, name := range names {
		row := newRow(name, nil)
		row.units = units[name]
		for unit, values := range samples[name] {
			sum := benchmath.AssumeNothing.Summary(benchmath.NewSample(values, &benchmath.DefaultThresholds), 0.95)
			if row.value[unit] = sum.Center; len(values) > 1 {
				row.spread[unit] = " ± " + sum.PctRangeString()
			}
		}
		r.rows = append(r.rows, row)
	}
	return in.Err()
}

// newRow returns a row of a result's name, with those values in alphabetical
// order of their units.
func newRow(name string, values map[string]float64) row {
	base, parts := benchfmt.Name(name).Parts()
	row := row{base: string(base), key: map[string]string{}, value: map[string]float64{}, spread: map[string]string{}}
	for _, part := range parts {
		if key, value, ok := strings.Cut(strings.TrimPrefix(string(part), "/"), "="); ok {
			row.keys, row.key[key] = append(row.keys, key), value
		}
	}
	for unit, v := range values {
		row.units, row.value[unit] = append(row.units, unit), v
	}
	slices.Sort(row.units)
	return row
}

// match reports whether the row is of a selector such as "Post/clients=64", which
// names the base and some of its keys.
func (w row) match(selector string) bool {
	of := newRow(selector, nil)
	for key, value := range of.key {
		if w.key[key] != value {
			return false
		}
	}
	return w.base == of.base
}

// value returns the largest value of a unit among the rows of a selector, and NaN
// without one.
func (r *results) value(selector, unit string) float64 {
	largest := math.NaN()
	for _, w := range r.rows {
		if v, ok := w.value[unit]; ok && w.match(selector) && !(v <= largest) {
			largest = v
		}
	}
	return largest
}
