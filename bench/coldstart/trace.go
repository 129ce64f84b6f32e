package coldstart

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"remit/bench/report"
)

// traced are the functions whose init is taken apart.
var traced = []string{hello, "get-transaction", "send-payment"}

// dearest is how many packages are shown of each.
const dearest = 12

// An initialised package, as GODEBUG=inittrace=1 tells it (package runtime,
// "Environment Variables").
type packageInit struct {
	name   string
	ms     float64
	bytes  int
	allocs int
}

// trace starts some functions with a trace of what their packages do before
// main.
func trace(ctx context.Context, all []*measured, s *services) ([]report.Table, error) {
	var tables []report.Table
	for _, m := range all {
		if !slices.Contains(traced, m.name) {
			continue
		}
		var out bytes.Buffer
		if _, err := run(ctx, m.path, append(slices.Clone(s.env), "GODEBUG=inittrace=1"), m.event, &out); err != nil {
			return nil, fmt.Errorf("tracing %s: %w", m.name, err)
		}
		inits := parseTrace(out.String())
		total := packageInit{}
		for _, p := range inits {
			total.ms, total.bytes, total.allocs = total.ms+p.ms, total.bytes+p.bytes, total.allocs+p.allocs
		}
		t := report.Table{Title: fmt.Sprintf("What %s does before main: %d packages", m.name, len(inits)), Head: []string{"package", "ms", "bytes", "allocations"}}
		t.Row("all", total.ms, total.bytes, total.allocs)
		slices.SortFunc(inits, func(a, b packageInit) int { return cmp.Compare(b.ms, a.ms) })
		for _, p := range inits[:min(dearest, len(inits))] {
			t.Row(p.name, p.ms, p.bytes, p.allocs)
		}
		tables = append(tables, t)
	}
	return tables, nil
}

// parseTrace reads lines such as
//
//	init net/http @1.5 ms, 0.023 ms clock, 8216 bytes, 54 allocs
func parseTrace(text string) []packageInit {
	var inits []packageInit
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 10 || fields[0] != "init" {
			continue
		}
		p := packageInit{name: fields[1]}
		p.ms, _ = strconv.ParseFloat(fields[4], 64)
		p.bytes, _ = strconv.Atoi(fields[7])
		p.allocs, _ = strconv.Atoi(fields[9])
		inits = append(inits, p)
	}
	return inits
}
