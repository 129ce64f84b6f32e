// Package stack holds the decisions of a deployment about payments: the chain,
// the token, the limits. Both engines work by them. It does not know where the
// values come from.
package stack

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"remit/internal/chain"
	"remit/internal/token"
)

// Share returns the percent of a window, as Config has it: at least one nonce, and 0,
// which is no limit, for 100 and more.
func Share(window, percent uint64) uint64 {
	if percent >= 100 {
		return 0
	}
	return max(1, window*percent/100)
}

// Refills are the rules of refills, by asset, and the mode, "test" or "live", in which
// they are in the books.
type Refills struct {
	Mode         string
	Token, Ether Refill
}

// A Refill is the rule of one asset, in its smallest unit: a wallet that may spend less
// than Low gets Amount, and all wallets at most Daily in a UTC day. With an Amount of
// zero none gets any, and a Daily of zero is no limit.
type Refill struct{ Low, Amount, Daily token.Amount }

// ParseRefill reads "LOW,AMOUNT,DAILY".
func ParseRefill(text string) (r Refill, err error) {
	parts := strings.Split(text, ",")
	if len(parts) != 3 {
		return r, fmt.Errorf("%q is not LOW,AMOUNT,DAILY: three whole numbers in the smallest unit", text)
	}
	for i, part := range []*token.Amount{&r.Low, &r.Amount, &r.Daily} {
		if *part, err = token.ParseAmount(parts[i]); err != nil {
			return Refill{}, fmt.Errorf("%q is not LOW,AMOUNT,DAILY: %w", text, err)
		}
	}
	return r, nil
}

// A Config is the decisions of one stack. Amounts are in the token's smallest
// unit; an amount of zero is no limit.
type Config struct {
	ChainID uint64
	Token   token.Token
	Network string // "base-sepolia", as merchants read it

	// MemoOff keeps payments' IDs out of the call data of their transfers, for a
	// token that refuses them. Then restored tables cannot be completed from the chain.
	MemoOff bool

	// ByCall has a transfer executed once, by eth_call within the token's worst case, in
	// place of estimates (docs/chains.md).
	ByCall bool

	// BatchContract is the Disburser through which the wallets pay batches; zero: batches
	// are not enabled.
	BatchContract token.Address

	// RequireKey refuses payments without an Idempotency-Key.
	RequireKey bool

	// Ephemeral says that the tables end with the process. Then a wallet that has paid
	// before, and of which they have no record, is no sign that they were lost.
	Ephemeral bool

	// Sanctions is a contract that says which recipients are not paid (chain.Screening);
	// zero: none is asked.
	Sanctions token.Address

	// TreasuryAllowance is the account with whose coins the wallets pay, by an ERC-20
	// allowance that it has granted to each; zero: each wallet pays with its own.
	TreasuryAllowance token.Address

	// Refills are how the stack's treasury wallet tops up the others.
	Refills Refills

	Window   uint64       // payments in flight per wallet
	Share    uint64       // of those, the most of one merchant; 0: any
	Minimum  token.Amount // of one payment
	Maximum  token.Amount // of one payment
	Daily    token.Amount // of a merchant in a UTC day
	FeeLimit token.Amount // wei per gas, the most that a fee cap may be

	// SilentAfter is how long a node has given no valid answer when it no longer counts
	// towards what is confirmed (chain.Nodes.Decide); zero: it always counts.
	SilentAfter time.Duration

	ConfirmationRule chain.ConfirmationRule
	BlockTime        time.Duration // how long a fee quote is good for, and a round of settling waits for the next

	// ReservationAge is how old a reservation must be before a run finishes it
	// in its handler's place. It exceeds the life of a handler. Zero is
	// settlement.ReservationAge.
	ReservationAge time.Duration
	// BumpAfter is how long the lowest nonce may wait before its fees are
	// raised. Zero is settlement.BumpAfter.
	BumpAfter time.Duration
	// RegistryAge is how long a process pays by the list of wallets that it has read.
	// Zero is dispatch.RegistryAge.
	RegistryAge time.Duration
}

// silentAfter is Config.SilentAfter under the quorum answering.
const silentAfter = 5 * time.Minute

// ParseQuorum returns Config.SilentAfter for the quorum "strict", of all configured nodes, or
// "answering", of those that are not silent. Empty is strict in the mode live, else answering.
func ParseQuorum(text, mode string) (time.Duration, error) {
	switch {
	case text == "strict", text == "" && mode == "live":
		return 0, nil
	case text == "answering", text == "":
		return silentAfter, nil
	}
	return 0, fmt.Errorf("%q is neither strict nor answering", text)
}

// Treasuries returns the accounts with whose coins wallets pay by an allowance, or have
// paid in the past. Not every transfer out of a treasury is of the wallets.
func (c Config) Treasuries(past []token.Address) []token.Address {
	if c.TreasuryAllowance.IsZero() {
		return past
	}
	return append(slices.Clone(past), c.TreasuryAllowance)
}
