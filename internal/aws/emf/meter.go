// Package emf writes metrics as lines of the log, in Amazon CloudWatch's embedded metric format: no call, and nothing
// to lose when a function ends. Each has the dimension stack, and few a node's or a wallet's name too.
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

	"github.com/remit-payouts/remit/internal/merchants/webhook"
)

// namespace is the namespace of all metrics. template.yaml's alarms and dashboard name it too.
const namespace = "Remit"

// most is how many values of a metric one line may have.
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
const most = 100

// Units of metrics, as CloudWatch names them.
const (
	Count        = "Count"
	Seconds      = "Seconds"
	Milliseconds = "Milliseconds"
	Percent      = "Percent"
	None         = "None"
)

// A Meter collects values until they are flushed. It is safe for concurrent use.
type Meter struct {
	out   io.Writer
	stack string
	now   func() time.Time

	mu     sync.Mutex
	values map[metric][]float64
}

// A metric belongs to a node or a wallet, as the dimension says, or to the stack if both are "".
type metric struct{ dimension, of, name, unit string }

// New returns a meter of the named stack that writes to out, the function's standard output.
func New(out io.Writer, stack string, now func() time.Time) *Meter {
	return &Meter{out: out, stack: stack, now: now, values: map[metric][]float64{}}
}

// Add records a value of a metric. A name always has the same unit.
func (m *Meter) Add(name, unit string, values ...float64) { m.AddOf("", "", name, unit, values...) }

// AddOf records values of a metric under one dimension, such as node=rpc.example.
func (m *Meter) AddOf(dimension, of, name, unit string, values ...float64) {
	if len(values) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	key := metric{dimension, of, name, unit}
	m.values[key] = append(m.values[key], values...)
}

// Flush writes the values added since the last Flush: one line, unless a metric has very many values.
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

// line takes the next line's worth of values, of the stack, one node or one wallet.
func (m *Meter) line() map[string]any {
	line, dimensions := map[string]any{"Stack": m.stack}, []string{"Stack"}
	keys := slices.SortedFunc(maps.Keys(m.values), func(a, b metric) int {
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
		name, values := key.name, m.values[key]
		n := min(len(values), most)
		metrics = append(metrics, map[string]string{"Name": name, "Unit": key.unit})
		line[name] = values[:n]
		if n == 1 {
			line[name] = values[0]
		}
		if m.values[key] = values[n:]; n == len(values) {
			delete(m.values, key)
		}
	}
	line["_aws"] = map[string]any{
		"Timestamp": m.now().UnixMilli(),
		"CloudWatchMetrics": []any{map[string]any{
			"Namespace": namespace, "Dimensions": [][]string{dimensions}, "Metrics": metrics,
		}},
	}
	return line
}

func (m *Meter) Attempted(result string, took time.Duration) {
	if result == "none" {
		result = "None"
	}
	m.Add("WebhookAttempts"+result, Count, 1)
	m.Add("WebhookDuration", Milliseconds, float64(took.Milliseconds()))
}

func (m *Meter) Ended(status webhook.DeliveryStatus, took time.Duration) {
	switch status {
	case webhook.Delivered:
		m.Add("WebhooksDelivered", Count, 1)
		m.Add("SecondsToDelivered", Seconds, took.Seconds())
	case webhook.Exhausted:
		m.Add("WebhooksExhausted", Count, 1)
	case webhook.Cancelled:
		m.Add("WebhooksCancelled", Count, 1)
	}
}

func (m *Meter) OldestDue(age time.Duration) {
	if age > 0 {
		m.Add("WebhookOldestDue", Seconds, age.Seconds())
	}
}
