package chains

import (
	"errors"
	"slices"

	"github.com/remit-payouts/remit/internal/evm/chain"
)

// A Deployment is the parameters of a stack that decide whether it may move real money.
type Deployment struct {
	Environment, Mode string // as template.yaml's parameters of these names
	ChainID           uint64
	AlarmTopic        string // AlarmTopicArn
}

// IsMain reports whether the chain is a main network, on which tokens are money. It
// knows those that have a profile.
func IsMain(id uint64) bool {
	i := slices.IndexFunc(profiles, func(p Profile) bool { return p.ID == id })
	return i >= 0 && i%2 == 0 // each stands before its test network
}

// Open returns the parameters that leave a stack with real money in test mode or
// unwatched, a sentence for each that says what to set. A
// sandbox may be as open as it likes. template.yaml's Rules say the same.
func (d Deployment) Open() (open []error) {
	if d.Mode != "live" && d.Environment != "prod" && !IsMain(d.ChainID) {
		return nil
	}
	for _, p := range []struct {
		closed bool
		what   string
	}{
		{d.Mode == "live", "A main network and Environment=prod move real money; set Mode to live, or another ChainId and Environment."},
		{d.AlarmTopic != "", "Alarms of a live stack wake somebody; set AlarmTopicArn to an SNS topic."},
	} {
		if !p.closed {
			open = append(open, errors.New(p.what))
		}
	}
	return open
}

// Chosen returns the rule of a stack whose ConfirmationRule is empty: in live mode
// finalized, on whatever chain, and otherwise none, which Complete takes from the
// chain's profile.
func Chosen(mode string) chain.ConfirmationRule {
	if mode == "live" {
		return finalized
	}
	return chain.ConfirmationRule{}
}
