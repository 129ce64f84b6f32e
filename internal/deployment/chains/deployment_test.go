package chains_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/remit-payouts/remit/internal/deployment/chains"
)

// TestRealMoneyIsClosed: a stack that moves real money is open for exactly the
// parameters that its sentences name, and a sandbox for none.
func TestRealMoneyIsClosed(t *testing.T) {
	all := []string{"Mode", "AlarmTopicArn"}
	closed := chains.Deployment{Environment: "prod", Mode: "live", ChainID: 8453, AlarmTopic: "arn:aws:sns:us-east-1:123456789012:alarms"}
	instead := func(environment string, chainID uint64) func(*chains.Deployment) {
		return func(d *chains.Deployment) {
			*d = chains.Deployment{Environment: environment, Mode: "test", ChainID: chainID}
		}
	}
	for _, c := range []struct {
		why  string
		open func(*chains.Deployment)
		want []string
	}{
		{"all is set", func(*chains.Deployment) {}, nil},
		{"defaults on a main network", instead("dev", 1), all},
		{"defaults in production", instead("prod", 84532), all},
		{"a sandbox", instead("staging", 84532), nil},
		{"test mode", func(d *chains.Deployment) { d.Mode = "test" }, all[:1]},
		{"nobody hears alarms", func(d *chains.Deployment) { d.AlarmTopic = "" }, all[1:]},
		{"live on a test network", func(d *chains.Deployment) { d.Environment, d.ChainID, d.AlarmTopic = "dev", 84532, "" }, all[1:]},
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
		if d.PublicKeys() != (d.Environment == "dev" && d.Mode == "test") {
			t.Errorf("%s: strangers may make keys: %t", c.why, d.PublicKeys())
		}
	}
}
