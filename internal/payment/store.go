package payment

import (
	"context"
	"errors"
	"time"

	"remit/internal/chain"
	"remit/internal/token"
)

var (
	// ErrNotFound reports that nothing is stored under an ID or a hash.
	ErrNotFound = errors.New("payment not found")
	// ErrChanged reports that a payment is no longer what the caller read:
	// committed, reassigned or discarded by somebody else. Read it again.
	ErrChanged = errors.New("payment changed since it was read")
	// ErrDailyLimit reports that a payment would exceed the merchant's day.
	ErrDailyLimit = errors.New("daily limit exceeded")
	// ErrUnreadable reports a stored item that does not decode. It concerns
	// that one payment only.
	ErrUnreadable = errors.New("stored payment cannot be read")
)

// A Store keeps payments. Every read is strongly consistent but List.
// An error that is none of the above leaves the outcome unknown: the write may
// have been applied, or may still be. paymenttest checks every promise here.
type Store interface {
	// Create stores p if nothing is stored under its ID. Otherwise it stores
	// nothing and returns the payment that is there, with created false.
	Create(ctx context.Context, p Payment) (stored Payment, created bool, err error)

	// Payment returns the payment stored under id, or ErrNotFound.
	Payment(ctx context.Context, id ID) (Payment, error)

	// PaymentByHash returns the payment that has an attempt of that hash, or
	// ErrNotFound (so too for a no-op's hash).
	PaymentByHash(ctx context.Context, hash chain.Hash) (Payment, error)

	// Reassign stores p's Wallet, Tx and Revision if the stored payment is Prepared
	// and still assigned as old says, or as p says already. Otherwise ErrChanged.
	Reassign(ctx context.Context, p Payment, old string) error

	// Discard removes an Prepared payment that was refused, if it is still
	// assigned as p says, so that a refusal does not use its key up. Otherwise
	// ErrChanged; ErrChanged too when it is gone already.
	Discard(ctx context.Context, p Payment) error

	// Finish stores a final p with its event if the stored payment is Committed.
	// Otherwise ErrChanged: somebody settled it before, or this call did and
	// its first answer was lost.
	Finish(ctx context.Context, p Payment) error
}

// A History lists payments for merchants. It may lag behind Store a little, and
// nothing that decides about money reads it.
type History interface {
	// List returns the payments of f.Merchant and f.Mode that match f, newest
	// first, at most f.Limit, and whether more follow. Prepared ones are not
	// listed, and neither are those that cannot be read.
	List(ctx context.Context, f Filter) (page []Payment, more bool, err error)
}

// A Filter says which payments to list. Zero fields do not restrict.
type Filter struct {
	Merchant, Mode string
	Status         Status
	After, Before  time.Time // exclusive bounds of CreatedAt
	Limit          int       // 1 to 100; anything else is 100
	From           Position  // the last payment of the page before
}

// A Position is a payment's place in a list: newest first, ties by ID
// descending. The zero Position is before the first.
type Position struct {
	CreatedAt time.Time
	ID        ID
}

// An DailyLimit keeps what a merchant may still spend in a UTC day.
type DailyLimit interface {
	// Charge takes amount from what is left of the merchant's limit for the
	// UTC day of now, or returns ErrDailyLimit and takes nothing. What was
	// charged is kept, so another limit counts at once; one above 10^38-1
	// counts as that. An error that is not ErrDailyLimit leaves the outcome
	// unknown: a day may be charged too much, never too little.
	Charge(ctx context.Context, merchant, mode string, amount, limit token.Amount, now time.Time) error

	// Refund gives back what a refused payment was charged, to the day of now.
	// If that day was charged less, it gives back nothing. It may be repeated
	// only when it is certain that it was not applied.
	Refund(ctx context.Context, merchant, mode string, amount token.Amount, now time.Time) error
}
