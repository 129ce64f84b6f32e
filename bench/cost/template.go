package cost

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// errTemplate reports that a template does not say what a bill depends on.
var errTemplate = errors.New("the template does not say")

// A template is what a bill depends on in template.yaml. Intrinsic functions
// appear as their arguments: `!Ref X` is the string X.
type template struct {
	Parameters map[string]struct {
		Default yaml.Node `yaml:"Default"`
	} `yaml:"Parameters"`
	Globals struct {
		Function settings `yaml:"Function"`
	} `yaml:"Globals"`
	Resources map[string]struct {
		Type       string    `yaml:"Type"`
		Properties yaml.Node `yaml:"Properties"`
	} `yaml:"Resources"`
}

// settings are a function's.
type settings struct {
	MemorySize float64 `yaml:"MemorySize"`
	Tracing    string  `yaml:"Tracing"`
	Events     map[string]struct {
		Properties struct {
			Gather float64 `yaml:"MaximumBatchingWindowInSeconds"`
		} `yaml:"Properties"`
	} `yaml:"Events"`
}

// parse returns the stack that a template deploys by its defaults, but for the
// traffic on it.
func parse(text []byte) (Stack, error) {
	var t template
	if err := yaml.Unmarshal(text, &t); err != nil {
		return Stack{}, fmt.Errorf("reading the template: %w", err)
	}
	r := reading{template: t}
	deliver := r.function("DeliverWebhookFunction")
	s := Stack{
		PostGB: r.memory("SendPaymentFunction"), GetGB: r.memory("GetTransactionFunction"), AuthorizerGB: r.memory("AuthorizerFunction"),
		DeliverGB: r.memory("DeliverWebhookFunction"), SettleGB: r.memory("CheckReceiptsFunction"),
		CacheSeconds: r.number("AuthorizerCacheSeconds"), BlockSeconds: r.duration("BlockTime"),
		Gather: deliver.Events["Job"].Properties.Gather, QueueTraced: deliver.Tracing == "Active",
		TraceShare: sampledShare, TraceReservoir: sampledPerSecond, DailyLimit: r.number("DailyLimit") > 0,
	}
	if _, ruled := t.Resources["TraceSampling"]; ruled && r.text("TraceRule") == "true" {
		s.TraceShare, s.TraceReservoir = r.number("TraceShare"), r.number("TraceReservoir")
	}
	for name, resource := range t.Resources {
		switch resource.Type {
		case "AWS::CloudWatch::Alarm":
			s.Alarms++
		case "AWS::DynamoDB::Table":
			var table struct {
				BillingMode yaml.Node `yaml:"BillingMode"`
			}
			r.note(resource.Properties.Decode(&table))
			mode := []string{table.BillingMode.Value}
			if table.BillingMode.Kind == yaml.SequenceNode { // !If [HasCapacity, …]
				r.note(table.BillingMode.Decode(&mode))
				s.FloorUnits = r.number("PaymentsCapacityMinimum")
				s.Provisioned = r.text("PaymentsCapacity") == "provisioned"
			}
			if mode[len(mode)-1] != "PAY_PER_REQUEST" {
				r.note(fmt.Errorf("%w that %s is paid by use", errTemplate, name))
			}
		}
	}
	return s, errors.Join(r.errs...)
}

// A reading takes values out of a template and collects what is not there.
type reading struct {
	template
	errs []error
}

func (r *reading) note(err error) {
	if err != nil {
		r.errs = append(r.errs, err)
	}
}

// function returns a function's settings, the global ones where it has none.
func (r *reading) function(name string) settings {
	s := r.Globals.Function
	resource, found := r.Resources[name]
	if !found {
		r.note(fmt.Errorf("%w what %s is", errTemplate, name))
		return s
	}
	r.note(resource.Properties.Decode(&s))
	return s
}

func (r *reading) memory(name string) float64 {
	mb := r.function(name).MemorySize
	if mb == 0 {
		r.note(fmt.Errorf("%w how much memory %s has", errTemplate, name))
	}
	return mb / 1024
}

// text returns a parameter's default.
func (r *reading) text(name string) string {
	p, found := r.Parameters[name]
	if !found || p.Default.Value == "" {
		r.note(fmt.Errorf("%w what %s is by default", errTemplate, name))
	}
	return strings.TrimSpace(p.Default.Value)
}

func (r *reading) number(name string) float64 {
	var n float64
	if _, err := fmt.Sscan(r.text(name), &n); err != nil {
		r.note(fmt.Errorf("%s: %w", name, err))
	}
	return n
}

func (r *reading) duration(name string) float64 {
	d, err := time.ParseDuration(r.text(name))
	r.note(err)
	return d.Seconds()
}
