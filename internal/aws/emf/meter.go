// Package emf writes a function's numbers as lines of its log: no call, and nothing to lose when a function ends. A few
// are metrics too, in Amazon CloudWatch's embedded metric format; queries of the log read the others.
package emf

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"
)

// namespace is the namespace of all metrics. template.yaml's alarms and dashboard name it too.
const namespace = "Remit"

// units has the metrics, each of which AWS bills, with their units as CloudWatch names them: alarms need them, and
// OldestProposal shows whether proposals are released. Package boot writes CallsThrottled and KeyErrors.
var units = map[string]string{
	"ScheduledRuns": "Count", "OldestPending": "Seconds", "OldestProposal": "Seconds", "NoncesConsumed": "Count",
	"ItemsUnreadable": "Count", "SettingsUnusable": "Count", "WalletsPaused": "Count", "WalletsLow": "Count",
	"PaymentsFailedShare": "Percent", "NodesSilent": "Count", "RequestsFailed": "Count",
}

// A Meter collects values until they are flushed. It is safe for concurrent use.
type Meter struct {
	out   io.Writer
	stack string
	now   func() time.Time

	mu     sync.Mutex
	values map[subject]map[string][]float64 // by number
}

// A subject is a node, an asset or a version, as the dimension says, or the stack if both are "".
type subject struct{ dimension, of string }

// New returns a meter of the named stack that writes to out, the function's standard output.
func New(out io.Writer, stack string, now func() time.Time) *Meter {
	return &Meter{out: out, stack: stack, now: now, values: map[subject]map[string][]float64{}}
}

// Add records a value of a number.
func (m *Meter) Add(name string, value float64) { m.AddOf("", "", name, value) }

// AddOf records a value of a number under one dimension, such as node=rpc.example. A metric has at most 100 between two
// flushes (CloudWatch's embedded metric format): a run adds one for each rail, of which there are fewer.
func (m *Meter) AddOf(dimension, of, name string, value float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := subject{dimension, of}
	if m.values[at] == nil {
		m.values[at] = map[string][]float64{}
	}
	m.values[at][name] = append(m.values[at][name], value)
}

// Flush writes the values added since the last Flush, a line for each subject. A number that is no metric is a field
// with their sum, since no query adds up a list.
func (m *Meter) Flush() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	defer clear(m.values)
	for _, at := range slices.SortedFunc(maps.Keys(m.values), func(a, b subject) int {
		return cmp.Or(cmp.Compare(a.dimension, b.dimension), cmp.Compare(a.of, b.of))
	}) {
		line, err := json.Marshal(m.line(at))
		if err == nil {
			_, err = m.out.Write(append(line, '\n'))
		}
		if err != nil {
			return fmt.Errorf("writing metrics: %w", err)
		}
	}
	return nil
}

func (m *Meter) line(at subject) map[string]any {
	line, dimensions := map[string]any{"Stack": m.stack}, []string{"Stack"}
	if at.dimension != "" {
		line[at.dimension], dimensions = at.of, append(dimensions, at.dimension)
	}
	var metrics []map[string]string
	for _, name := range slices.Sorted(maps.Keys(m.values[at])) {
		values, unit := m.values[at][name], units[name]
		if unit != "" {
			metrics = append(metrics, map[string]string{"Name": name, "Unit": unit})
		}
		var sum float64
		for _, v := range values {
			sum += v
		}
		if line[name] = sum; unit != "" && len(values) > 1 {
			line[name] = values
		}
	}
	if len(metrics) > 0 {
		line["_aws"] = map[string]any{
			"Timestamp": m.now().UnixMilli(),
			"CloudWatchMetrics": []any{map[string]any{
				"Namespace": namespace, "Dimensions": [][]string{dimensions}, "Metrics": metrics,
			}},
		}
	}
	return line
}
