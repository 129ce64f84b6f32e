package payment

import (
	"fmt"
	"maps"
	"slices"
)

// A State is a payment's progress inside Remit. Merchants see its Status.
type State string

// The states, as diagrams and items name them. Package proposal explains PROPOSED, CANCELLED and EXPIRED.
const (
	Proposed  State = "PROPOSED"  // a proposal holds the key: nothing can be signed
	Cancelled State = "CANCELLED" // the proposal was cancelled: the key is used up, and nothing is ever signed
	Expired   State = "EXPIRED"   // the proposal expired: the same
	Prepared  State = "PREPARED"  // stored, unsigned: no money can move yet
	Committed State = "COMMITTED" // signed bytes are stored: the money may have moved
	Confirmed State = "CONFIRMED" // final on chain: the money has moved
	Failed    State = "FAILED"    // final on chain: the money will never move
)

// moves is the whole state machine. docs/payment-states.md shows it.
var moves = map[State][]State{
	Proposed:  {Prepared, Cancelled, Expired},
	Cancelled: {},
	Expired:   {},
	Prepared:  {Committed, Proposed, Cancelled}, // back and to an end only from a proposal
	Committed: {Confirmed, Failed},
	Confirmed: {},
	Failed:    {},
}

// States returns every state, sorted by name.
func States() []State { return slices.Sorted(maps.Keys(moves)) }

// Final reports whether a signed payment has ended.
func (s State) Final() bool { return s == Confirmed || s == Failed }

// Signed reports whether the payment has a hash: merchants see it.
func (s State) Signed() bool { return s == Committed || s.Final() }

// UsedUp reports whether a proposal's end has used the key up: no request matches it, and nothing is ever signed.
func (s State) UsedUp() bool { return s == Cancelled || s == Expired }

// A Status is the state as merchants read it.
type Status string

// The statuses of API.
const (
	StatusPending   Status = "pending"
	StatusConfirmed Status = "confirmed"
	StatusFailed    Status = "failed"
)

// Status returns the public word for s. A prepared payment, which is never shown, counts as pending; a proposal's has
// none.
func (s State) Status() Status {
	switch s {
	case Confirmed:
		return StatusConfirmed
	case Failed:
		return StatusFailed
	case Prepared, Committed:
		return StatusPending
	default:
		return ""
	}
}

func (p Payment) forbidden(to State) error {
	return fmt.Errorf("payment %s: cannot move from %s to %s", p.ID, p.State, to)
}
