// Package settings holds the decisions about payments that an operator changes while a stack runs. Functions read them
// from the table, at most MaxAge before they judge a request; nothing is cached for longer and nothing is configured at
// start-up.
//
// Payments lists the settings that the payments of a rail obey (Settings): Set, Text, Diff and Validate serve the
// commands, Encode and Decode the stores. A rail's first version starts from Default, with the Version 0;
// store.Settings writes it under the condition that nobody has written another since.
package settings

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/remit-payouts/remit/internal/evm/token"
)

const (
	// Code is the number of this code. Settings that need a higher one are not obeyed.
	Code = 1
	// Kept is how many versions a store keeps, the current one among them.
	Kept = 50
	// MaxAge is how long a process obeys settings after it began to read them, by the wall clock.
	MaxAge = 30 * time.Second
	// MaxWindow is the largest NonceWindow. remit recover searches twice as many nonces.
	MaxWindow = 64
	maxText   = 256
)

// Reasons why stored settings cannot be obeyed.
var (
	// ErrMissing reports that none are stored.
	ErrMissing = errors.New("no settings are stored; write them with remit rails add")
	// ErrDamaged reports a stored version that does not decode, or is not valid.
	ErrDamaged = errors.New("the stored settings are damaged")
	// ErrNewer reports a version that needs newer code than this.
	ErrNewer = errors.New("the stored settings need newer code")
	// ErrFixed reports another chain or token than the rail has.
	ErrFixed = errors.New("the chain and the token of a rail never change; add another rail with remit rails add")
)

// A Stamp names a version of settings and its author.
type Stamp struct {
	Version uint64 // counts up from 1; 0: not stored yet
	Needs   uint64 // the lowest Code that understands it
	// Confirmed: an operator has confirmed it for this table. The copy in a restored table is not.
	Confirmed bool
	At        time.Time
	Who, Why  string
}

// A Rail is an asset as an operator has added it. Its chain and token never change after the first version.
type Rail struct {
	ChainID uint64
	Token   token.Token
	Network string // "base-sepolia", as merchants read it
	Closed  bool   // no payment is begun

	Confirmation string        // a chain.ConfirmationRule; empty: the chain's own, in live mode finalized
	Quorum       string        // as stack.ParseQuorum reads it
	BlockTime    time.Duration // 0: the chain's own
	TokenLow     token.Amount  // a wallet below it is low on tokens; 0: the mode's own mark
	GasLowGwei   uint64        // the same of ether
}

// Coin identifies the rail.
func (r Rail) Coin() token.Coin { return token.Coin{ChainID: r.ChainID, Contract: r.Token.Contract} }

// Settings are the settings of a rail, which its payments obey. Amounts are in the token's smallest unit.
type Settings struct {
	Stamp
	Rail
	Minimum    token.Amount // of one payment
	Maximum    token.Amount // of one payment; 0: no limit
	Daily      token.Amount // of a merchant in a UTC day; 0: no limit
	RequireKey bool         // refuse payments without an Idempotency-Key
	// Above ApproveAbove a payment is made from an approved proposal only; zero: never.
	ApproveAbove token.Amount
	// Sanctions is a contract that lists recipients who are not paid; zero: no contract.
	Sanctions token.Address
	// BatchContract is the Disburser that pays batches; zero: batches are not enabled.
	BatchContract token.Address
	FeeCapGwei    uint64 // the highest fee cap per gas; 0: the chain's own limit
	NonceWindow   uint64 // payments in flight per wallet; 0: the chain's own number
	MerchantCap   uint64 // percent of the window that one merchant may use; 100: all
	// MemoOff keeps payments' IDs out of the call data of their transfers.
	MemoOff bool
	Refills Refills
}

// Refills are the rules by which the funding wallet refills others, by asset.
type Refills struct{ Token, Ether Refill }

// A Refill is the rule of one asset, in its smallest unit: a wallet that may spend less than Low gets Amount, and all
// wallets at most Daily in a UTC day. With an Amount of zero none gets any, and a Daily of zero is no limit.
type Refill struct{ Low, Amount, Daily token.Amount }

// ParseRefill reads "LOW,AMOUNT,DAILY", or "" for no refills.
func ParseRefill(text string) (r Refill, err error) {
	if text == "" {
		return r, nil
	}
	parts := strings.Split(text, ",")
	if len(parts) != 3 {
		return r, fmt.Errorf("%q is not LOW,AMOUNT,DAILY; use three whole numbers in the smallest unit", text)
	}
	for i, part := range []*token.Amount{&r.Low, &r.Amount, &r.Daily} {
		if *part, err = token.ParseAmount(parts[i]); err != nil {
			return Refill{}, fmt.Errorf("%q is not LOW,AMOUNT,DAILY: %w", text, err)
		}
	}
	if r.Amount.IsZero() || !r.Daily.IsZero() && r.Daily.Less(r.Amount) {
		return Refill{}, fmt.Errorf("%q refills nothing; use an AMOUNT above 0 and a DAILY of at least AMOUNT (or 0, for "+
			"no limit), or an empty text for no refills", text)
	}
	return r, nil
}

// String is the inverse of ParseRefill.
func (r Refill) String() string {
	if r.Amount.IsZero() {
		return ""
	}
	return r.Low.String() + "," + r.Amount.String() + "," + r.Daily.String()
}

// Default returns the settings that a rail's first version starts from.
func Default(r Rail) Settings { return Settings{Stamp: Stamp{Needs: Code}, Rail: r, MerchantCap: 50} }

// Unset names the limits that a live stack must have and s has not. Live payments are refused until it is empty.
func (s Settings) Unset() (names []string) {
	for _, l := range []struct {
		name  string
		limit token.Amount
	}{{"AmountMinimum", s.Minimum}, {"AmountMaximum", s.Maximum}, {"DailyLimit", s.Daily}} {
		if l.limit.IsZero() {
			names = append(names, l.name)
		}
	}
	return names
}
