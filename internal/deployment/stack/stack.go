// Package stack holds the decisions of a deployment about payments: the chain, the token, the rules. Both engines
// work by them. It does not know where the values come from.
package stack

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
)

// Rules decide about payments: the settings, and the values derived from them.
type Rules struct {
	settings.Settings
	FeeLimit    token.Amount // wei per gas, the most that a fee cap may be
	Window      uint64       // payments in flight per wallet
	MerchantCap uint64       // of those, the most of one merchant; 0: any
}

// Own are a chain's own values of Rules.
type Own struct {
	Window   uint64
	FeeLimit token.Amount
}

// Rules returns the rules that follow from settings.
func (c Config) Rules(s settings.Settings) Rules {
	r := Rules{Settings: s, FeeLimit: c.Own.FeeLimit, Window: cmp.Or(s.NonceWindow, c.Own.Window)}
	if s.FeeCapGwei > 0 {
		r.FeeLimit, _ = token.Units(s.FeeCapGwei).Times(1_000_000_000) // 64 bits of gwei fit into 256 of wei
	}
	if s.MerchantCap < 100 {
		r.MerchantCap = max(1, r.Window*s.MerchantCap/100)
	}
	return r
}

// Refused returns why payments are not made by settings, nil if they may be: in live mode
// they need limits, and an operator who has confirmed them for the table they are in.
func (c Config) Refused(s settings.Settings) error {
	unset := s.Unset()
	switch {
	case !c.Live:
		return nil
	case c.Mode == "test":
		return fmt.Errorf("chain %d is a main network, whose tokens are money; deploy the stack with Mode=live", c.ChainID)
	case len(unset) > 0:
		return fmt.Errorf("a live stack pays only with limits; set %s", strings.Join(unset, ", "))
	case !s.Confirmed:
		return errors.New("the settings are not confirmed for this table; compare them and run remit settings set --confirm")
	}
	return nil
}

// A Config is the decisions of one stack that last as long as a process.
type Config struct {
	ChainID uint64
	Token   token.Token
	Network string // "base-sepolia", as merchants read it

	// ByCall has transfers executed once, by eth_call within the token's worst case, not estimated (docs/chains.md).
	ByCall bool

	Gas     chain.GasRule // how the chain's gas is paid
	GasUnit chain.GasUnit // and so out of the balance of Token, or in ether

	// Further reports that the rail is not the stack's first: its payments name their asset.
	Further bool

	// Ephemeral reports that the tables end with the process. Then a wallet that has paid
	// before, and of which they have no record, is no sign that they were lost.
	Ephemeral bool

	Mode string // "test" or "live", in which refills are stored
	Live bool   // payments move real money

	Own Own // the chain's, where the settings are 0

	// SilentAfter is how long a node has given no valid answer when it no longer counts in
	// confirmations (chain.Nodes.Decide); zero: it always counts.
	SilentAfter time.Duration

	ConfirmationRule chain.ConfirmationRule
	BlockTime        time.Duration // how long a fee quote is good for, and a round of settling waits for the next

	// ReservationAge is how old a reservation must be before a run finishes it in its handler's place. It exceeds the
	// life of a handler. Zero is settlement.ReservationAge.
	ReservationAge time.Duration
	// BumpAfter is how long the lowest nonce may wait before its fees are raised. Zero is settlement.BumpAfter.
	BumpAfter time.Duration
	// RegistryAge is how long a process pays by the list of wallets that it has read. Zero is dispatch.RegistryAge.
	RegistryAge time.Duration
}

// Coin identifies the rail.
func (c Config) Coin() token.Coin { return token.Coin{ChainID: c.ChainID, Contract: c.Token.Contract} }

// silentAfter is Config.SilentAfter under the quorum answering.
const silentAfter = 5 * time.Minute

// ParseQuorum returns Config.SilentAfter for a quorum: "strict" counts all configured nodes,
// "answering" only nodes that are not silent. Empty is strict in the mode live, else answering.
func ParseQuorum(text, mode string) (time.Duration, error) {
	switch {
	case text == "strict", text == "" && mode == "live":
		return 0, nil
	case text == "answering", text == "":
		return silentAfter, nil
	}
	return 0, fmt.Errorf("%q is not known; use strict or answering", text)
}
