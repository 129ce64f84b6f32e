package chains_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"remit/internal/chains"
	"remit/internal/token"
)

// TestRealMoneyIsClosed: a stack that moves real money is open for exactly the
// parameters that its sentences name, and a sandbox for none.
func TestRealMoneyIsClosed(t *testing.T) {
	all := []string{"Mode", "KeyCreation", "AmountMinimum", "AmountMaximum", "DailyLimit", "AlarmTopicArn"}
	closed := chains.Deployment{Environment: "prod", Mode: "live", KeyCreation: "operator", ChainID: 8453, Minimum: token.Units(1), Maximum: token.Units(2), Daily: token.Units(3), AlarmTopic: "arn:aws:sns:us-east-1:123456789012:alarms"}
	for _, c := range []struct {
		why  string
		open func(*chains.Deployment)
		want []string
	}{
		{"all is set", func(*chains.Deployment) {}, nil},
		{"defaults on a main network", func(d *chains.Deployment) {
			*d = chains.Deployment{Environment: "dev", Mode: "test", KeyCreation: "public", ChainID: 1}
		}, all},
		{"defaults in production", func(d *chains.Deployment) {
			*d = chains.Deployment{Environment: "prod", Mode: "test", KeyCreation: "public", ChainID: 84532}
		}, all},
		{"a sandbox", func(d *chains.Deployment) {
			*d = chains.Deployment{Environment: "staging", Mode: "test", KeyCreation: "public", ChainID: 84532}
		}, nil},
		{"test mode", func(d *chains.Deployment) { d.Mode = "test" }, all[:1]},
		{"keys for strangers", func(d *chains.Deployment) { d.KeyCreation = "public" }, all[1:2]},
		{"dust", func(d *chains.Deployment) { d.Minimum = token.Amount{} }, all[2:3]},
		{"no largest payment", func(d *chains.Deployment) { d.Maximum = token.Amount{} }, all[3:4]},
		{"no limit of a day", func(d *chains.Deployment) { d.Daily = token.Amount{} }, all[4:5]},
		{"nobody hears alarms", func(d *chains.Deployment) { d.AlarmTopic = "" }, all[5:]},
		{"live on a test network", func(d *chains.Deployment) { d.Environment, d.ChainID, d.AlarmTopic = "dev", 84532, "" }, all[5:]},
	} {
		d := closed
		c.open(&d)
		said := errors.Join(d.Open()...)
		var got []string
		for _, name := range all {
			if said != nil && strings.Contains(said.Error(), "set "+name) {
				got = append(got, name)
			}
		}
		if !slices.Equal(got, c.want) || len(d.Open()) != len(c.want) {
			t.Errorf("%s: open for %v, want %v: %v", c.why, got, c.want, said)
		}
	}
	if chains.Chosen("live").Tag != "finalized" || chains.Chosen("test").Tag != "" {
		t.Error("a live stack does not wait for finalized")
	}
}
