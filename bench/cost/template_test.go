package cost

import (
	"errors"
	"os"
	"testing"
)

// TestTheBillIsOfWhatIsDeployed reads the template itself: what it gives a
// function is what the page's bill is computed from.
func TestTheBillIsOfWhatIsDeployed(t *testing.T) {
	text, err := os.ReadFile("../../template.yaml")
	if err != nil {
		t.Fatal(err)
	}
	got, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if got.Alarms < 10 {
		t.Errorf("%v alarms", got.Alarms)
	}
	got.Alarms = 0
	want := Stack{PostGB: 0.5, GetGB: 0.25, AuthorizerGB: 0.25, DeliverGB: 0.25, SettleGB: 0.5,
		CacheSeconds: 60, BlockSeconds: 2, TraceShare: 0.01, FloorUnits: 40}
	if got != want {
		t.Errorf("the template deploys %+v\nwant %+v: an expensive change is made here too", got, want)
	}
}

func TestParseSaysWhatIsMissing(t *testing.T) {
	for name, text := range map[string]string{
		"no functions": "Parameters: {}",
		"provisioned":  "Resources: {T: {Type: 'AWS::DynamoDB::Table', Properties: {BillingMode: PROVISIONED}}}",
	} {
		if _, err := Parse([]byte(text)); !errors.Is(err, errTemplate) {
			t.Errorf("%s: error = %v", name, err)
		}
	}
	if _, err := Parse([]byte("\t")); err == nil {
		t.Error("what is no YAML is read")
	}
}
