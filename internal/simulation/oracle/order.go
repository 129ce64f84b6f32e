package oracle

import (
	"errors"
	"slices"

	"remit/internal/dispatch"
	"remit/internal/payment"
	"remit/internal/store"
	"remit/internal/token"
)

// An Order is a payment that clients want made.
type Order struct {
	Key    string // the Idempotency-Key
	To     token.Address
	Amount uint64 // in units of the token
}

// Request is the request that clients post for the order.
func (o Order) Request() payment.Request {
	return payment.Request{Merchant: "mer_1", Mode: "test", IdempotencyKey: o.Key, To: o.To, Amount: token.Units(o.Amount)}
}

// ID is where the tables keep the order's payment.
func (o Order) ID() payment.ID { return payment.KeyID("mer_1", "test", o.Key) }

// An Answer is an instance's answer to one request for an order.
type Answer struct {
	Order   Order
	Payment payment.Payment
	Err     error
}

// refusals are the errors that say that nothing was started.
var refusals = []error{
	dispatch.ErrTooMany, dispatch.ErrUnavailable, dispatch.ErrInsufficient, dispatch.ErrRecipient, dispatch.ErrOwnWallet,
	dispatch.ErrAmountBelow, dispatch.ErrAmountAbove, dispatch.ErrNotInBook, store.ErrDailyLimit,
}

// Refused reports whether the answer says that nothing was started.
func (a Answer) Refused() bool {
	return !errors.Is(a.Err, dispatch.ErrInProgress) &&
		slices.ContainsFunc(refusals, func(r error) bool { return errors.Is(a.Err, r) })
}
