package main

import (
	"bytes"
	"errors"
	"math"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"remit/internal/chain"
	"remit/internal/emf"
	"remit/internal/emf/runreport"
	"remit/internal/plan"
	"remit/internal/settlement"
	"remit/internal/webhook"
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

// TestMetricsAreCounted: the bill has the metrics that a month makes in which payments fail
// or are refused for three reasons, fees rise, and a node and an endpoint do not answer.
func TestMetricsAreCounted(t *testing.T) {
	var out bytes.Buffer
	m := emf.New(&out, "remit", time.Now)
	runreport.Add(m, settlement.Report{
		Confirmed: 1, Failed: 1, Bumps: 1, Resent: 1, Pending: 1, Oldest: 1, ToFinal: []time.Duration{1}, Spent: []settlement.Spent{{}}, Wallets: []settlement.Funds{{}},
	}, runreport.Of{})
	runreport.AddNodes(m, []chain.Health{{Node: "a", Missed: 1, Silent: true}})
	m.Add("ScheduledRuns", emf.Count, 1)
	for _, code := range []string{"insufficient_funds", "rate_limited", "payment_rail_unavailable"} {
		m.AddOf("Code", code, "Refusals", emf.Count, 1)
	}
	m.Attempted("2xx", 1)
	m.Attempted("5xx", 1)
	m.Ended(webhook.Delivered, 1)
	m.OldestDue(1)
	if err := m.Flush(); err != nil {
		t.Fatal(err)
	}
	metrics := bytes.Count(out.Bytes(), []byte(`"Unit"`))
	if got := metrics - bytes.Count(out.Bytes(), []byte(`"Wallet":`)) - bytes.Count(out.Bytes(), []byte(`"Node":`)); got != plan.OwnMetrics {
		t.Errorf("%d metrics are the stack's own, and the bill has %d", got, plan.OwnMetrics)
	}
}
