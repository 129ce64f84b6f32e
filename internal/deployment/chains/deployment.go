package chains

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/evm/chain"
)

// A Deployment is the parameters of a stack that decide whether it may move real money.
type Deployment struct {
	Environment, Mode string // as template.yaml's parameters of these names
	ChainID           uint64
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
	for _, p := range []struct {
		closed bool
		what   string
	}{
		{d.Mode == "live", "A main network and Environment=prod move real money; set Mode to live, or another ChainId and Environment."},
		{d.AlarmTopic != "", "A live stack needs a topic for its alarms; set AlarmTopicArn to an SNS topic."},
	} {
		if !p.closed {
			open = append(open, errors.New(p.what))
		}
	}
	return open
}

// Read returns the configuration of a stack with these values of template.yaml's parameters.
// Where one is empty the chain's own value holds, and in live mode the rule finalized.
func Read(parameters map[string]string) (c stack.Config, err error) {
	c.Mode = parameters["Mode"]
	if c.Mode == "live" {
		c.ConfirmationRule = finalized
	}
	var id, asset, rule, block error
	if c.ChainID, id = strconv.ParseUint(parameters["ChainId"], 10, 64); id != nil {
		id = fmt.Errorf("ChainId: %w", id)
	}
	own, _ := Of(c.ChainID)
	c.Token, c.Network, asset = own.Asset(parameters["Network"], parameters["TokenAddress"], parameters["TokenSymbol"],
		parameters["TokenDecimals"])
	if text := parameters["ConfirmationRule"]; text != "" {
		if c.ConfirmationRule, rule = chain.ParseConfirmationRule(text); rule != nil {
			rule = fmt.Errorf("ConfirmationRule: %w", rule)
		}
	}
	if text := parameters["BlockTime"]; text != "" {
		if c.BlockTime, block = time.ParseDuration(text); block != nil {
			block = fmt.Errorf("BlockTime: %w", block)
		}
	}
	return own.Complete(c), errors.Join(id, asset, rule, block)
}
