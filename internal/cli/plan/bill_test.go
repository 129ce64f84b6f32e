package plan

import (
	"math"
	"slices"
	"testing"
)

// bare is a deployment without anything that a test does not ask for.
func bare(changes ...func(*Deployment)) Deployment {
	s := Deployment{PostGB: 1, GetGB: 0.5, AuthGB: 0.5, HookGB: 0.5, SettleGB: 1, Keys: 1, Wallets: 4, BlockSeconds: 2,
		FinalSeconds: 60, Webhooks: true, Months: 1}
	for _, change := range changes {
		change(&s)
	}
	return s
}

func TestEveryLineOfTheBillHasItsReason(t *testing.T) {
	still := func(s *Deployment) { s.Webhooks, s.FinalSeconds = false, 0 } // no webhook, nothing ever pending
	const scheduled = 43_200.0                                             // runs, each with one write, as hints have
	const idle = scheduled * 0.1                                           // GB-seconds of runs that find nothing
	pending := 1e7 / SecondsPerMonth * 60
	base := func(s *Deployment) { s.FinalSeconds, s.EpochSeconds = 1080, 384 }
	for _, row := range []struct {
		why, line string
		n         float64
		p         Consumption
		s         Deployment
		want      float64
	}{
		{"two requests each", "API Gateway", 1e6, Consumption{}, bare(), 7},
		{"1 GB with its overhead", "DynamoDB, storage", 1e6, Consumption{Stored: 900, Items: 1}, bare(), 0.45},
		{"after a year all is stored but deliveries", "DynamoDB, storage", 1e6, Consumption{Stored: 1000, HookStored: 400, Items: 2},
			bare(func(s *Deployment) { s.Months = 12 }), (12*(600+100) + 3*(400+100)) * 0.45e-3},
		{"a secret for each wallet, and one of nodes, read every minute", "secrets", 1, Consumption{}, bare(), 5*0.4 + scheduled*5e-6},
		{"a key for each wallet, and one for webhooks", "KMS", 1, Consumption{},
			bare(still, func(s *Deployment) { s.KMS, s.WebhookKey = true, true }), 4 + 1},
		{"seconds by memory", "Lambda, duration", 1e6, Consumption{Post: 0.1, Get: 0.01}, bare(still), (1e5 + 5e3 + idle) * perGBSecond},
		{"own work on less of a core", "Lambda, duration", 1e6, Consumption{Get: 0.01, Work: 0.002}, bare(still),
			(1e6*((0.010+0.002*(1769.0/512-1))*0.5+0.002*(1769.0/1024-1)+2*0.002*(1769.0/512-1)*0.5) + idle) * perGBSecond},
		{"a busy month reads each wallet at every block", "DynamoDB, writes", 1e7, Consumption{LookWrites: 1}, bare(),
			(1_296_000*4 + scheduled) * perWriteUnit},
		{"and each pending payment", "DynamoDB, reads", 1e7, Consumption{LookReads: 1, PendingReads: 0.25}, bare(),
			(1_296_000*(4+pending*0.25) + scheduled) * perReadUnit},
		{"or, in epochs, some of them often and the others seldom", "DynamoDB, reads", 1e7,
			Consumption{LookReads: 1, PendingReads: 0.25}, bare(base),
			(1_296_000*4*(1+1) + 1e7*(2+1080/60+2*1080/384.0)*0.25 + scheduled) * perReadUnit},
		{"what is final at once is posted ten at a time", "SQS", 1e7, Consumption{Sends: 0.5}, bare(base),
			1e7*(0.5+0.2)*0.5e-6 + 5*2*SecondsPerMonth/20*0.4e-6},
		{"one payment a month is looked at for a minute", "DynamoDB, writes", 1, Consumption{LookWrites: 1}, bare(),
			(30 + scheduled + 1) * perWriteUnit},
		{"a minute's cache and a request a second: one in 61 asks", "DynamoDB, reads", SecondsPerMonth / 2, Consumption{AuthorizerReads: 1},
			bare(still, func(s *Deployment) { s.CacheSeconds = 60 }), (SecondsPerMonth/61.0 + scheduled) * perReadUnit},
		{"metrics of trouble are paid in its hours", "metrics", 1, Consumption{}, bare(), (5 + 0.9) * 0.3},
		{"what follows the load has four alarms each", "alarms", 1, Consumption{},
			bare(func(s *Deployment) { s.Alarms, s.Provisioned = 20, true }), 3.6},
		{"and three functions run each minute", "Lambda, requests", 1e6, Consumption{}, bare(still), (2e6 + 1e6*2 + 3*scheduled + 1e6) * 0.2e-6},
		{"answers go to merchants, and bytes to each node", "data out", 1e6, Consumption{},
			bare(func(s *Deployment) { s.OutBytes, s.Nodes, s.NodeBytes = 3000, 2, 4000 }), 11 * 0.09},
		{"a daily limit is one write", "DynamoDB, writes", 1e6, Consumption{Writes: 10},
			bare(still, func(s *Deployment) { s.DailyLimit = true }), 12*0.625 + scheduled*perWriteUnit},
		{"provisioned writes", "DynamoDB, writes", 1e7, Consumption{Writes: 10},
			bare(func(s *Deployment) { s.Provisioned = true }), (1e8 + scheduled) / 3600 / 0.7 * 0.00065},
		{"without webhooks their units are not paid", "DynamoDB, writes", 1e6, Consumption{Writes: 10, HookWrites: 3},
			bare(still), 8*0.625 + scheduled*perWriteUnit},
	} {
		bill := row.s.Bill(row.n, row.p)
		i := slices.IndexFunc(bill, func(l Line) bool { return l.Name == row.line })
		if i < 0 || math.Abs(bill[i].Dollars-row.want) > 1e-4*row.want {
			t.Errorf("%s: %s is not %v: %v", row.why, row.line, row.want, bill)
		}
	}
	p := Consumption{Writes: 10, Reads: 10, HookWrites: 3, HookReads: 2, Sends: 1, Hook: 0.1}
	quiet := bare(func(s *Deployment) { s.Webhooks = false })
	if got, want := bare().PerMillion(1e7, p)-quiet.PerMillion(1e7, p), 3*0.625+2*0.125+0.2+3*0.5+0.1*0.5*13.3334; math.Abs(got-want) > 1e-6 {
		t.Errorf("no webhooks save %v; want %v for their units, invocations, messages and seconds", got, want)
	}
}
