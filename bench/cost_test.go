package main

import (
	"errors"
	"math"
	"os"
	"reflect"
	"strings"
	"testing"

	"remit/internal/plan"
)

// TestTheBillIsOfTheTemplate reads the template itself: the page's bill is computed
// from its values.
func TestTheBillIsOfTheTemplate(t *testing.T) {
	text, err := os.ReadFile("../template.yaml")
	if err != nil {
		t.Fatal(err)
	}
	got, err := parse(text)
	if err != nil || got.Alarms < 10 {
		t.Fatalf("%v, %v alarms", err, got.Alarms)
	}
	want := plan.Default
	if math.Abs(got.Alarms-want.Alarms) < 10 { // a dollar a month
		want.Alarms = got.Alarms
	}
	if got != want {
		t.Errorf("the template deploys %+v\nwant %+v: an expensive change is made in internal/plan too", got, want)
	}
	for _, text := range []string{"Parameters: {}", strings.Replace(string(text), "  SendPaymentFunction:", "  PayFunction:", 1)} {
		if _, err := parse([]byte(text)); !errors.Is(err, errTemplate) {
			t.Errorf("a template that lacks values: error = %v", err)
		}
	}
}

// TestThePagesAreOfTheResults: the pages show the kept results, the bills of the template
// as it is now, and the plan's walls; and the plan's numbers are those of the results and
// of the template.
func TestThePagesAreOfTheResults(t *testing.T) {
	r, err := resultsOf("..")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range pages {
		page, err := os.ReadFile("../" + path)
		if err != nil || r.fill(string(page)) != string(page) {
			t.Errorf("%s is out of date: run go run ./bench -page (%v)", path, err)
		}
	}
	measured, planned := reflect.ValueOf(r.consumption("Store")), reflect.ValueOf(plan.Measured)
	for i := range measured.NumField() {
		if m, p := measured.Field(i).Float(), planned.Field(i).Float(); math.Abs(p-m) > 0.1*m {
			t.Errorf("%s: %v was measured, and internal/plan has %v", measured.Type().Field(i).Name, m, p)
		}
	}
}
