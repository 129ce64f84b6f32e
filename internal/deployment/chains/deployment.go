package chains

import (
	"errors"
	"slices"

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/evm/chain"
)

// A Deployment decides whether a stack may move real money.
type Deployment struct {
	Environment, Mode string // as template.yaml's parameters of these names
	ChainID           uint64 // of a rail; 0: of none
	AlarmTopic        string // AlarmTopicArn
}

// IsMain reports whether a chain with a profile is a main network, on which tokens are money.
func IsMain(id uint64) bool {
	i := slices.IndexFunc(profiles, func(p Profile) bool { return p.ID == id })
	return i >= 0 && i%2 == 0 // each stands before its test network
}

// Open returns the parameters that leave a stack with real money in test mode or unwatched, each with a sentence
// about the value to set. A sandbox may be as open as it likes. template.yaml's Rules say the same.
func (d Deployment) Open() (open []error) {
	if d.Mode != "live" && d.Environment != "prod" && !IsMain(d.ChainID) {
		return nil
	}
	needs := func(closed bool, sentence string) {
		if !closed {
			open = append(open, errors.New(sentence))
		}
	}
	needs(d.Mode == "live", "A main network and Environment=prod move real money; "+
		"set Mode to live, or use a test network and another Environment.")
	needs(d.AlarmTopic != "", "A live stack needs a topic for its alarms; set AlarmTopicArn to an SNS topic.")
	return open
}

// PublicKeys reports whether strangers may make API keys: only where developers play with test money.
func (d Deployment) PublicKeys() bool { return d.Mode == "test" && d.Environment == "dev" }

// Read returns how a stack of a mode pays by a rail. Where a part of it is empty the chain's own value holds, and in
// live mode the rule finalized.
func Read(mode string, r settings.Rail) (c stack.Config, err error) {
	c = stack.Config{Mode: mode, Live: mode == "live" || IsMain(r.ChainID), ChainID: r.ChainID, Token: r.Token,
		Network: r.Network, BlockTime: r.BlockTime}
	if mode == "live" {
		c.ConfirmationRule = finalized
	}
	var rule error
	if r.Confirmation != "" {
		c.ConfirmationRule, rule = chain.ParseConfirmationRule(r.Confirmation)
	}
	c.SilentAfter, err = stack.ParseQuorum(r.Quorum, mode)
	own, _ := Of(c.ChainID)
	return own.Complete(c), errors.Join(rule, err)
}
