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

// most is how many values of a metric one line may have.
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
const most = 100

// A Meter collects values until they are flushed. It is safe for concurrent use.
type Meter struct {
	out   io.Writer
	stack string
	now   func() time.Time

	mu     sync.Mutex
	values map[number][]float64
}

// A number belongs to a node, an asset or a version, as the dimension says, or to the stack if both are "".
type number struct{ dimension, of, name string }

// New returns a meter of the named stack that writes to out, the function's standard output.
func New(out io.Writer, stack string, now func() time.Time) *Meter {
	return &Meter{out: out, stack: stack, now: now, values: map[number][]float64{}}
}

// Add records a value of a number.
func (m *Meter) Add(name string, values ...float64) { m.AddOf("", "", name, values...) }

// AddOf records values of a number under one dimension, such as node=rpc.example.
func (m *Meter) AddOf(dimension, of, name string, values ...float64) {
	if len(values) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	key := number{dimension, of, name}
	m.values[key] = append(m.values[key], values...)
}

// Flush writes the values added since the last Flush: a line for each dimension's value, unless a metric has very many
// values. A number that is no metric is a field with their sum, since no query adds up a list.
func (m *Meter) Flush() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(m.values) > 0 {
		line, err := json.Marshal(m.line())
		if err == nil {
			_, err = m.out.Write(append(line, '\n'))
		}
		if err != nil {
			clear(m.values)
			return fmt.Errorf("writing metrics: %w", err)
		}
	}
	return nil
}

// line takes the next line's worth of values, of the stack, or of one dimension's value.
func (m *Meter) line() map[string]any {
	line, dimensions := map[string]any{"Stack": m.stack}, []string{"Stack"}
	keys := slices.SortedFunc(maps.Keys(m.values), func(a, b number) int {
		return cmp.Or(cmp.Compare(a.dimension, b.dimension), cmp.Compare(a.of, b.of), cmp.Compare(a.name, b.name))
	})
	dimension, of := keys[0].dimension, keys[0].of
	if dimension != "" {
		line[dimension], dimensions = of, append(dimensions, dimension)
	}
	var metrics []map[string]string
	for _, key := range keys {
		if key.dimension != dimension || key.of != of {
			break
		}
		name, values, n := key.name, m.values[key], len(m.values[key])
		if unit := units[name]; unit == "" {
			line[name] = sum(values)
		} else {
			metrics = append(metrics, map[string]string{"Name": name, "Unit": unit})
			n = min(n, most)
			line[name] = values[:n]
			if n == 1 {
				line[name] = values[0]
			}
		}
		if m.values[key] = values[n:]; n == len(values) {
			delete(m.values, key)
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

func sum(values []float64) (all float64) {
	for _, v := range values {
		all += v
	}
	return all
}
