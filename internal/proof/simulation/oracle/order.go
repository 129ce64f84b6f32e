package oracle

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/dispatch"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
)

// An Order is a payment that clients want made, or a transfer that an operator wants made.
type Order struct {
	Key      string // the Idempotency-Key
	Merchant string // of a payment; "": mer_1
	To       token.Address
	Asset    token.Coin    // zero: the default
	Amount   uint64        // in units of the token, or in wei; of a transfer, 0: all
	From     token.Address // the wallet of a transfer; zero: a payment
	Ether    bool          // of a transfer
	Call     []byte        // of a transfer that is a call of To
	Sure     bool          // nothing but a wrong node could keep it from being paid

	Entries []payment.Entry // of a batch, to To first, of Amount in all; nil: one payment

	Guard     time.Duration // of the key under which it is asked for; zero: none
	Different chain.Hash    // the similar payment that its requests name

	Patience time.Duration // after which each request begins nothing; zero: it may for ever
}

// Transfer is the order that an operator gives.
func (o Order) Transfer() dispatch.Transfer {
	return dispatch.Transfer{Key: o.Key, Mode: "test", From: o.From, To: o.To, Ether: o.Ether, Amount: token.Units(o.Amount), Call: o.Call}
}

// operators reports whether an operator gives the order.
func (o Order) operators() bool { return o.From != token.Address{} }

// payee is where payees counts the order: its recipient, or for a batch, a guarded payment and a transfer,
// of which several may have one recipient, the bytes of its payment's ID.
func (o Order) payee() token.Address {
	if o.byID() {
		return token.Address(o.ID().Memo())
	}
	return o.To
}

func (o Order) byID() bool { return o.operators() || o.Entries != nil || o.Guard > 0 }

// Request is the request that clients post for the order.
func (o Order) Request() payment.Request {
	r := payment.Request{Merchant: o.merchant(), Mode: "test", IdempotencyKey: o.Key, Asset: o.Asset, To: o.To, Amount: token.Units(o.Amount)}
	if o.Entries != nil {
		r, _ = r.Batch(o.Entries)
	}
	return r
}

// Batched returns o as a batch that pays others too.
func (o Order) Batched(others ...payment.Entry) Order {
	o.Entries = append([]payment.Entry{{To: o.To, Amount: token.Units(o.Amount)}}, others...)
	for _, e := range others {
		units, _ := e.Amount.Uint64()
		o.Amount += units
	}
	return o
}

// some reports whether one of the order's recipients is so.
func (o Order) some(is func(token.Address) bool) bool {
	return slices.ContainsFunc(o.Request().Outputs(), func(e payment.Entry) bool { return is(e.To) })
}

// ID is where the tables keep the order's payment.
func (o Order) ID() payment.ID {
	if o.operators() {
		return payment.KeyID(payment.Operator, "test", o.Key)
	}
	return payment.KeyID(o.merchant(), "test", o.Key)
}

func (o Order) merchant() string { return cmp.Or(o.Merchant, "mer_1") }

// An Answer is an instance's answer to one request for an order.
type Answer struct {
	Order   Order
	Payment payment.Payment
	Err     error
}

// refusals are the errors which mean that nothing was started.
var refusals = []error{
	dispatch.ErrTooMany, dispatch.ErrUnavailable, dispatch.ErrInsufficient, dispatch.ErrRecipient, dispatch.ErrOwnWallet,
	dispatch.ErrAmountBelow, dispatch.ErrAmountAbove, dispatch.ErrNotInBook, dispatch.ErrNoBatches, dispatch.ErrExpired,
	dispatch.ErrSimilarPending, dispatch.ErrGuardedBatch, store.ErrDailyLimit,
}

// Refused reports whether the answer means that nothing was started.
func (a Answer) Refused() bool {
	_, similar := errors.AsType[*dispatch.SimilarError](a.Err)
	return similar || !errors.Is(a.Err, dispatch.ErrInProgress) &&
		slices.ContainsFunc(refusals, func(r error) bool { return errors.Is(a.Err, r) })
}
