package main_test

import (
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/cli/plan"
	"github.com/remit-payouts/remit/internal/proof/must"
)

var update = flag.Bool("update", false, "write the measured values and the bills into the pages")

// results are all values of bench/results, by the name of the benchmark and by unit.
type results map[string]map[string][]float64

var processors = regexp.MustCompile(`-\d+$`) // at the end of a benchmark's name

func readResults(t *testing.T) results {
	paths, err := filepath.Glob("results/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatal("no results", err)
	}
	r := results{}
	for _, path := range paths {
		text := must.Get(os.ReadFile(path))(t)
		for line := range strings.Lines(string(text)) {
			words := strings.Fields(line)
			if len(words) < 4 || !strings.HasPrefix(words[0], "Benchmark") {
				continue
			}
			name := processors.ReplaceAllString(strings.TrimPrefix(words[0], "Benchmark"), "")
			if r[name] == nil {
				r[name] = map[string][]float64{}
			}
			for pair := range slices.Chunk(words[2:], 2) {
				v, err := strconv.ParseFloat(pair[0], 64)
				if err != nil {
					t.Fatalf("%s: %q: %v", path, line, err)
				}
				r[name][pair[1]] = append(r[name][pair[1]], v)
			}
		}
	}
	return r
}

// value returns the largest median of a unit among the benchmarks of a selector, such as
// Post/clients=64, which names some parts of theirs or their keys; NaN without one.
func (r results) value(selector, unit string) float64 {
	largest := math.NaN()
	for name, units := range r {
		parts, values := strings.Split(name, "/"), slices.Sorted(slices.Values(units[unit]))
		of := func(part string) bool {
			return slices.ContainsFunc(parts, func(p string) bool { return p == part || strings.HasPrefix(p, part+"=") })
		}
		without := slices.ContainsFunc(strings.Split(selector, "/"), func(part string) bool { return !of(part) })
		if !without && len(values) > 0 && !(values[len(values)/2] <= largest) {
			largest = values[len(values)/2]
		}
	}
	return largest
}

// target matches a row of the table of targets: its limit's sign, number and unit, the
// measured value, and which value of the results that is.
var target = regexp.MustCompile("(?m)^(\\| .* \\| ([≤≥]) ([0-9.]+)(.*?) \\| )(.*?)( \\| `(.*)` \\|)$")

// measured returns the page with the measured value of each target, and how many rows it has.
func (r results) measured(page string) (string, int) {
	rows := 0
	return target.ReplaceAllStringFunc(page, func(row string) string {
		rows++
		f := target.FindStringSubmatch(row)
		unit, selector, _ := strings.Cut(f[7], " of ")
		v := r.value(selector, unit)
		limit, _ := strconv.ParseFloat(f[3], 64)
		_, decimals, _ := strings.Cut(f[3], ".")
		text := fmt.Sprintf("%.*f%s", len(decimals), v, f[4])
		if math.IsNaN(v) {
			text = "not measured"
		} else if f[2] == "≤" && v > limit || f[2] == "≥" && v < limit {
			text += ", **missed**"
		}
		return f[1] + text + f[6]
	}), rows
}

// TestThePagesAreOfTheResults: the pages show each target's value from bench/results, bills
// computed from the counts there, and the walls of the plan.
func TestThePagesAreOfTheResults(t *testing.T) {
	r := readResults(t)
	computed := regexp.MustCompile(`(?s)(<!-- computed: (\w+) -->\n).*?(\n<!-- end -->)`)
	tables := map[string]string{"Cost": r.bills(), "Walls": walls()}
	for path, atLeast := range map[string]int{"../docs/performance.md": 25, "../docs/scale.md": 0} {
		page := must.Get(os.ReadFile(path))(t)
		fresh, rows := r.measured(string(page))
		blocks := 0
		fresh = computed.ReplaceAllStringFunc(fresh, func(old string) string {
			blocks++
			f := computed.FindStringSubmatch(old)
			return f[1] + tables[f[2]] + f[3]
		})
		if rows < atLeast || blocks != 1 {
			t.Errorf("%s has %d targets and %d computed blocks", path, rows, blocks)
		}
		switch {
		case *update:
			must.OK(t, os.WriteFile(path, []byte(fresh), 0o644))
		case fresh != string(page):
			t.Errorf("%s is out of date: run go test ./bench -update", path)
		}
	}
}

// TestThePlanIsOfTheResults: the plan computes with measured values, and with as many
// partitions of a list as package dynamo writes to.
func TestThePlanIsOfTheResults(t *testing.T) {
	measured, planned := reflect.ValueOf(readResults(t).consumption("Store")), reflect.ValueOf(plan.Measured)
	for i := range measured.NumField() {
		if m, p := measured.Field(i).Float(), planned.Field(i).Float(); !(math.Abs(p-m) <= 0.1*m) {
			t.Errorf("%s: %v was measured, and internal/cli/plan has %v", measured.Type().Field(i).Name, m, p)
		}
	}
	if dynamo.ListBuckets != plan.ListBuckets {
		t.Errorf("a list has %d partitions, and internal/cli/plan %d", dynamo.ListBuckets, plan.ListBuckets)
	}
}
