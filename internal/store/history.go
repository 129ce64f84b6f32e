package store

import (
	"context"
	"time"

	"remit/internal/payment"
)

// History lists payments for merchants. It may lag behind Payments, so no
// decision about money reads it.
type History interface {
	// List returns the payments of f.Merchant and f.Mode that match f, newest
	// first, at most f.Limit, and whether more follow. It leaves out
	// Prepared payments and those that do not decode.
	List(ctx context.Context, f Filter) (page []payment.Payment, more bool, err error)
}

// A Filter says which payments to list. Zero fields do not restrict.
type Filter struct {
	Merchant, Mode string
	Status         payment.Status
	After, Before  time.Time // exclusive bounds of CreatedAt
	Limit          int       // 1 to 100; anything else is 100
	From           Position  // the last payment of the page before
}

// A Position is a payment's place in a list: newest first, ties by ID
// descending. The zero Position is before the first.
type Position struct {
	CreatedAt time.Time
	ID        payment.ID
}
