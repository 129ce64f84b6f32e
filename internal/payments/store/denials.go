package store

import (
	"context"
	"time"

	"github.com/remit-payouts/remit/internal/evm/token"
)

// Denials keeps the recipients that the operator of the stack pays under no
// circumstances. Rules has them, sorted by recipient.
type Denials interface {
	// Deny stores d over any other denial of its recipient. It takes MaxDenied of
	// MaxReason each. Nobody can pay the zero address and precompiled contracts: a denial
	// of them is an error.
	Deny(ctx context.Context, d Denial) error

	// Allow removes the denial of a recipient. One that is not denied is no error.
	Allow(ctx context.Context, to token.Address) error
}

// A Denial is one recipient and why it is not paid.
type Denial struct {
	To     token.Address
	Reason string
	At     time.Time
}
