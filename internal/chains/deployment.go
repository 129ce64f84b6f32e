package chains

import (
	"errors"
	"slices"

	"remit/internal/chain"
	"remit/internal/token"
)

// A Deployment is what the parameters of a stack say about who may pay how much of
// which money. Amounts are in the token's smallest unit; zero is no limit.
type Deployment struct {
	Environment, Mode, KeyCreation string // as template.yaml's parameters of these names
	ChainID                        uint64
	Minimum, Maximum, Daily        token.Amount // AmountMinimum, AmountMaximum, DailyLimit
	AlarmTopic                     string       // AlarmTopicArn
}

// IsMain reports whether the chain is a main network, on which tokens are money. It
// knows those that have a profile.
func IsMain(id uint64) bool {
	i := slices.IndexFunc(profiles, func(p Profile) bool { return p.ID == id })
	return i >= 0 && i%2 == 0 // each stands before its test network
}

// Open returns the parameters that leave a stack with real money open to strangers,
// without limits or unwatched, a sentence for each that says what to set. A
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
		{d.KeyCreation == "operator", "A live stack does not hand keys to strangers; set KeyCreation to operator."},
		{!d.Minimum.IsZero(), "On a live stack a payment of one unit costs as much gas as any; set AmountMinimum."},
		{!d.Maximum.IsZero(), "A live stack has a largest payment; set AmountMaximum."},
		{!d.Daily.IsZero(), "A live stack limits what a merchant pays in a day; set DailyLimit."},
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
