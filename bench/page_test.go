package main_test

import (
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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

// TestREADMEQuotesTheResults: README.md's figures are those of the results that `make figures` measures, each at an
// ancestor of this commit that at most 300 commits of product code follow.
func TestREADMEQuotesTheResults(t *testing.T) {
	r := readResults(t)
	r.bills()
	readme, makefile := must.Get(os.ReadFile("../README.md"))(t), must.Get(os.ReadFile("../Makefile"))(t)
	_, table, _ := strings.Cut(string(readme), "\n## Five numbers\n")
	table, _, _ = strings.Cut(table, "\n[")
	digits := func(v float64) string {
		text := fmt.Sprintf("%.0f", v)
		return regexp.MustCompile(`(\d)(\d{3})$`).ReplaceAllString(text, "$1,$2")
	}
	quotes := map[string]string{
		"chaos": fmt.Sprintf("| %s payments through %.0f SIGKILLs",
			digits(r.value("Chaos/happened=payments_asked_for", "count")), r.value("Chaos/happened=kills_of_the_server_(SIGKILL)", "count")),
		"store":   fmt.Sprintf("at 10 million a month | $%.2f; $", r.value("Cost/10 million a month", "Base live")),
		"batches": fmt.Sprintf("; $%.2f in batches of 100; a stack", r.value("Cost/the same in batches of 100", "Base live")),
		"bill":    fmt.Sprintf("with 1,000 payments a month costs $%.2f in all |", r.value("Cost/1,000 a month", "Base live, on demand")/1000),
		"gas": fmt.Sprintf("| %s units; %s each in a batch of 100 |", digits(r.value("Gas/payments=1/recipients=holders", "gas/payment")),
			digits(r.value("Gas/payments=100/recipients=holders", "gas/payment"))),
		"load": fmt.Sprintf("sharing two cores | %s |", digits(r.value("Load/clients=32/wallets=4", "payments/s"))),
		"post": fmt.Sprintf("median time to the 201 | %.0f ms, each database call made 4 ms slower and each node call 50 ms |",
			r.value("Post/store=4ms/rpc=50ms/clients=1/payer=4-wallets", "p50-ms")),
	}
	for name, quote := range quotes {
		if !strings.Contains(table, quote) {
			t.Errorf("README.md does not have the figure of %s: %s", name, quote)
		}
	}
	if rows := strings.Count(table, "\n| "); rows != 7 { // and the head and the ruler
		t.Errorf("README.md has %d rows of figures, and this test knows five: has its form changed?", rows-2)
	}
	delete(quotes, "bill") // of store
	measured := regexp.MustCompile(`(?m)^FIGURES := (.*)$`).FindStringSubmatch(string(makefile))
	if diff := cmp.Diff(slices.Sorted(maps.Keys(quotes)), slices.Sorted(slices.Values(strings.Fields(measured[1])))); diff != "" {
		t.Errorf("README.md quotes other results than `make figures` measures (-quoted +measured):\n%s", diff)
	}
	git := func(args ...string) (string, error) {
		out, err := exec.CommandContext(t.Context(), "git", args...).Output()
		return strings.TrimSpace(string(out)), err
	}
	if shallow, err := git("rev-parse", "--is-shallow-repository"); err != nil || shallow != "false" {
		t.Log("this copy has no history: the commits of the results are not compared")
		return
	}
	for name := range quotes {
		commit := regexp.MustCompile(`(?m)^commit: ([0-9a-f]{40})$`).FindSubmatch(must.Get(os.ReadFile("results/" + name + ".txt"))(t))
		if commit == nil {
			t.Errorf("results/%s.txt names no commit: run make figures", name)
			continue
		}
		if _, err := git("merge-base", "--is-ancestor", string(commit[1]), "HEAD"); err != nil {
			t.Errorf("results/%s.txt is of %s, which is no ancestor of this commit: run make figures", name, commit[1])
			continue
		}
		count, err := git("rev-list", "--count", string(commit[1])+"..HEAD", "--", ":/functions", ":/internal",
			":/cmd", ":/sdk", ":(top,exclude)*_test.go", ":(top,exclude)internal/house", ":(top,exclude)internal/proof")
		must.OK(t, err)
		if since := must.Get(strconv.Atoi(count))(t); since > 300 {
			t.Errorf("results/%s.txt is %d commits of product code old, 300 at most: run make figures", name, since)
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
