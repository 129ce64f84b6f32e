package main

import (
	"errors"
	"math"
	"os"
	"strings"
	"testing"
)

// bare is a deployment without anything that a test does not ask for.
func bare(changes ...func(*deployment)) deployment {
	s := deployment{postGB: 1, getGB: 0.5, authGB: 0.5, hookGB: 0.5, settleGB: 1, keys: 1, wallets: 4, blockSeconds: 2, finalSeconds: 60, webhooks: true}
	for _, change := range changes {
		change(&s)
	}
	return s
}

func TestEveryLineOfTheBillHasItsReason(t *testing.T) {
	still := func(s *deployment) { s.webhooks, s.finalSeconds = false, 0 } // no webhook, nothing ever pending
	const scheduled = 43_200.0                                             // runs, of which each writes once, as do those of hints
	const idle = scheduled * 0.1                                           // GB-seconds of runs that find nothing
	pending := 1e7 / secondsPerMonth * 60
	for _, row := range []struct {
		why, line string
		n         float64
		p         consumption
		s         deployment
		want      float64
	}{
		{"two requests each", "API Gateway", 1e6, consumption{}, bare(), 7},
		{"1 GB with its overhead", "DynamoDB, storage", 1e6, consumption{stored: 900, items: 1}, bare(), 0.45},
		{"seconds by memory", "Lambda, duration", 1e6, consumption{post: 0.1, get: 0.01}, bare(still), (1e5 + 5e3 + idle) * perGBSecond},
		{"own work takes longer on less of a core", "Lambda, duration", 1e6, consumption{get: 0.01, work: 0.002}, bare(still),
			(1e6*((0.010+0.002*(1769.0/512-1))*0.5+0.002*(1769.0/1024-1)+2*0.002*(1769.0/512-1)*0.5) + idle) * perGBSecond},
		{"a busy month looks at every block at every wallet", "DynamoDB, writes", 1e7, consumption{lookWrites: 1}, bare(), (1_296_000*4 + scheduled) * perWriteUnit},
		{"and reads every pending payment", "DynamoDB, reads", 1e7, consumption{lookReads: 1, pendingReads: 0.25}, bare(), 1_296_000 * (4 + pending*0.25) * perReadUnit},
		{"one payment a month is looked at for a minute", "DynamoDB, writes", 1, consumption{lookWrites: 1}, bare(), (30 + scheduled + 1) * perWriteUnit},
		{"a minute's cache and a request a second: one in 61 asks", "DynamoDB, reads", secondsPerMonth / 2, consumption{authorizerReads: 1},
			bare(still, func(s *deployment) { s.cacheSeconds = 60 }), secondsPerMonth / 61.0 * perReadUnit},
		{"a queue's batches are traced at Lambda's own rate", "X-Ray", 1e6, consumption{}, bare(func(s *deployment) { s.queueTraced = true }), 5},
		{"beyond one a second, a share is traced", "X-Ray", secondsPerMonth * 1.5, consumption{}, bare(func(s *deployment) { s.traceReservoir, s.traceShare = 1, 0.05 }), secondsPerMonth * 1.1 * perTrace},
		{"a daily limit is one write", "DynamoDB, writes", 1e6, consumption{writes: 10}, bare(still, func(s *deployment) { s.dailyLimit = true }), 12*0.625 + scheduled*perWriteUnit},
		{"provisioned writes", "DynamoDB, writes", 1e7, consumption{writes: 10}, bare(func(s *deployment) { s.provisioned = true }), (1e8 + scheduled) / 3600 / 0.7 * 0.00065},
		{"without webhooks their units are not paid", "DynamoDB, writes", 1e6, consumption{writes: 10, hookWrites: 3}, bare(still), 8*0.625 + scheduled*perWriteUnit},
	} {
		for _, l := range bill(row.n, row.p, row.s) {
			if l.name == row.line && math.Abs(l.dollars-row.want) > 1e-4*row.want {
				t.Errorf("%s: %s = %v; want %v", row.why, l.name, l.dollars, row.want)
			}
		}
	}
	p := consumption{writes: 10, reads: 10, hookWrites: 3, hookReads: 2, hook: 0.1}
	quiet, gathered := bare(func(s *deployment) { s.webhooks = false }), bare(func(s *deployment) { s.gather = 5 })
	batch := 1 + 1e7/secondsPerMonth // five pollers share five seconds' messages
	if got, want := perMillion(1e7, p, bare())-perMillion(1e7, p, quiet), 3*0.625+2*0.125+0.2+3*0.4+0.1*0.5*13.3334; math.Abs(got-want) > 1e-6 {
		t.Errorf("no webhooks save %v; want %v for their units, invocations, messages and seconds", got, want)
	}
	if got, want := perMillion(1e7, p, bare())-perMillion(1e7, p, gathered), (1-1/batch)*(0.2+2*0.4+0.1*0.5*13.3334); math.Abs(got-want) > 1e-6 {
		t.Errorf("gathered webhooks save %v; want %v for invocations, polls and seconds", got, want)
	}
}

// TestTheBillIsOfTheTemplate reads the template itself: the page's bill is computed
// from its values.
func TestTheBillIsOfTheTemplate(t *testing.T) {
	text, err := os.ReadFile("../template.yaml")
	if err != nil {
		t.Fatal(err)
	}
	got, err := parse(text)
	if err != nil || got.alarms < 10 {
		t.Fatalf("%v, %v alarms", err, got.alarms)
	}
	got.alarms = 0
	if want := (deployment{postGB: 0.5, getGB: 0.25, authGB: 0.25, hookGB: 0.25, settleGB: 0.5, cacheSeconds: 60, blockSeconds: 2, traceShare: 0.01, floorUnits: 40}); got != want {
		t.Errorf("the template deploys %+v\nwant %+v: an expensive change is made here too", got, want)
	}
	for _, text := range []string{"Parameters: {}", strings.Replace(string(text), "  SendPaymentFunction:", "  PayFunction:", 1)} {
		if _, err := parse([]byte(text)); !errors.Is(err, errTemplate) {
			t.Errorf("a template that lacks values: error = %v", err)
		}
	}
}

// TestThePageIsOfTheResults: docs/performance.md shows the kept results and the
// bills of the template as it is now.
func TestThePageIsOfTheResults(t *testing.T) {
	r, err := resultsOf("..")
	page, unread := os.ReadFile("../" + pagePath)
	if err = errors.Join(err, unread); err != nil {
		t.Fatal(err)
	}
	if r.fill(string(page)) != string(page) {
		t.Errorf("%s is out of date: run go run ./bench -page", pagePath)
	}
}
