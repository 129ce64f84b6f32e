package payment

import (
	"fmt"
	"maps"
	"slices"
)

// A State is a payment's progress inside Remit. Merchants see its Status.
type State string

// The states. PREPARED, COMMITTED, CONFIRMED and FAILED in diagrams and items.
const (
	Prepared  State = "PREPARED"  // stored, unsigned: no money can move yet
	Committed State = "COMMITTED" // signed bytes are stored: the money may have moved
	Confirmed State = "CONFIRMED" // final on chain: the money has moved
	Failed    State = "FAILED"    // final on chain: the money will never move
)

// moves is the whole state machine. docs/payment-states.md is drawn from it.
var moves = map[State][]State{
	Prepared:  {Committed},
	Committed: {Confirmed, Failed},
	Confirmed: {},
	Failed:    {},
}

// States returns every state, sorted by name.
func States() []State { return slices.Sorted(maps.Keys(moves)) }

// Final reports whether no further move is possible.
func (s State) Final() bool { return len(moves[s]) == 0 }

// A Status is the state as merchants read it.
type Status string

// The statuses of API.
const (
	StatusPending   Status = "pending"
	StatusConfirmed Status = "confirmed"
	StatusFailed    Status = "failed"
)

// Status returns the public word for s. A payment that is not yet committed, which is never shown, counts as pending.
func (s State) Status() Status {
	switch s {
	case Confirmed:
		return StatusConfirmed
	case Failed:
		return StatusFailed
	default:
		return StatusPending
	}
}

func (p Payment) forbidden(to State) error {
	return fmt.Errorf("payment %s: cannot move from %s to %s", p.ID, p.State, to)
}
