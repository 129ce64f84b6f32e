package store

import (
	"context"
	"time"
)

// An Act is an entry of the audit log, before or after an operator's act. The entries of one command have one ID.
type Act struct {
	ID      string
	At      time.Time
	Who     string // the caller's ARN on AWS, the user of the operating system on one machine
	Command string // as it was typed, the reason with it
	Effect  string // the change that the operator approved; of an end, the error
	Outcome Outcome
}

// An Outcome is a command's progress.
type Outcome string

// The outcomes. A command with no entry but Begun was cut off: it may have done all, some or none of its work.
const (
	Begun   Outcome = "begun" // stored before anything changes
	Done    Outcome = "done"
	NotDone Outcome = "not done" // it was refused, and nothing has changed
	Unknown Outcome = "unknown"  // it failed, and some of it may have been done
)

// An AuditLog keeps entries for ever: no call changes or removes one.
type AuditLog interface {
	// Append stores an entry. Storing the same entry again changes nothing.
	Append(ctx context.Context, a Act) error

	// Acts returns the entries since a time, oldest first.
	Acts(ctx context.Context, since time.Time) ([]Act, error)
}
