package cost

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"gopkg.in/yaml.v3"
)

// errTemplate reports that a template does not hold a value that a bill depends
// on.
var errTemplate = errors.New("the template does not say")

// Parse returns the stack that a template deploys by its defaults, without the
// traffic on it.
func Parse(text []byte) (Stack, error) {
	r := reading{}
	if err := yaml.Unmarshal(text, &r.root); err != nil {
		return Stack{}, fmt.Errorf("reading the template: %w", err)
	}
	s := Stack{
		PostGB: r.memory("SendPaymentFunction"), GetGB: r.memory("GetTransactionFunction"), AuthorizerGB: r.memory("AuthorizerFunction"),
		DeliverGB: r.memory("DeliverWebhookFunction"), SettleGB: r.memory("CheckReceiptsFunction"),
		CacheSeconds: r.number("AuthorizerCacheSeconds"), BlockSeconds: r.seconds("BlockTime"), DailyLimit: r.number("DailyLimit") > 0,
		FloorUnits: r.number("PaymentsCapacityMinimum"), Provisioned: r.text("Parameters", "PaymentsCapacity", "Default") == "provisioned",
		QueueTraced: r.text("Resources", "DeliverWebhookFunction", "Properties", "Tracing") == "Active", TraceShare: sampledShare, TraceReservoir: sampledPerSecond,
	}
	s.Gather, _ = strconv.ParseFloat(r.text("Resources", "DeliverWebhookFunction", "Properties", "Events", "Job", "Properties", "MaximumBatchingWindowInSeconds"), 64)
	if r.text("Parameters", "TraceRule", "Default") == "true" {
		s.TraceShare, s.TraceReservoir = r.number("TraceShare"), r.number("TraceReservoir")
	}
	resources, _ := r.root["Resources"].(map[string]any)
	for name := range resources {
		switch r.text("Resources", name, "Type") {
		case "AWS::CloudWatch::Alarm":
			s.Alarms++
		case "AWS::DynamoDB::Table":
			if mode := r.text("Resources", name, "Properties", "BillingMode"); mode != "PAY_PER_REQUEST" && mode != "[HasCapacity PROVISIONED PAY_PER_REQUEST]" {
				r.errs = append(r.errs, fmt.Errorf("%w that %s is paid by use", errTemplate, name))
			}
		}
	}
	return s, errors.Join(r.errs...)
}

// A reading takes values out of a template and collects the errors. An intrinsic
// function is its arguments: `!Ref X` is the string X.
type reading struct {
	root map[string]any
	errs []error
}

// text returns the value at a path, "" without one.
func (r *reading) text(path ...string) string {
	var at any = r.root
	for _, name := range path {
		m, _ := at.(map[string]any)
		if at = m[name]; at == nil {
			return ""
		}
	}
	return fmt.Sprint(at)
}

// memory returns a function's memory in GB, the global one where it has none.
func (r *reading) memory(function string) float64 {
	text := r.text("Resources", function, "Properties", "MemorySize")
	if text == "" && r.text("Resources", function) != "" {
		text = r.text("Globals", "Function", "MemorySize")
	}
	return r.parse(function, text) / 1024
}

// number returns a parameter's default.
func (r *reading) number(name string) float64 {
	return r.parse(name, r.text("Parameters", name, "Default"))
}

// parse reads the value of name.
func (r *reading) parse(name, text string) float64 {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		r.errs = append(r.errs, fmt.Errorf("%w %s: %w", errTemplate, name, err))
	}
	return n
}

// seconds returns a parameter's default, which is a duration.
func (r *reading) seconds(name string) float64 {
	d, err := time.ParseDuration(r.text("Parameters", name, "Default"))
	if err != nil {
		r.errs = append(r.errs, fmt.Errorf("%w %s: %w", errTemplate, name, err))
	}
	return d.Seconds()
}
