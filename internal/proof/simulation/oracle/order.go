package oracle

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/dispatch"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/proposal"
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

// similar returns the stored payments, id aside, that a guarded key made of o's amount for its recipient.
func (o *Oracle) similar(of Order, id payment.ID) (all []payment.Payment) {
	for _, r := range o.Orders() {
		p, err := o.Store.Payment(context.Background(), r.ID())
		if err == nil && p.ID != id && p.Guarded && r.merchant() == of.merchant() && r.To == of.To && r.Amount == of.Amount {
			all = append(all, p)
		}
	}
	return all
}

// Creating applies a write by which a guarded key may create the payment of an order, and checks that no similar
// payment is unsigned then, nor newer than guard, unless the request named the newest.
func (o *Oracle) Creating(of Order, apply func()) {
	_, before := o.Store.Payment(context.Background(), of.ID())
	apply()
	p, err := o.Store.Payment(context.Background(), of.ID())
	if !errors.Is(before, store.ErrNotFound) || err != nil {
		return
	}
	var newest, named time.Time
	similar := o.similar(of, p.ID)
	for _, s := range similar {
		if s.TxHash == of.Different {
			named = s.CreatedAt
		}
		if s.State == payment.Prepared {
			o.Violate(PaidOnce, "%s was created while the similar %s was not signed", of.Key, s.ID)
		} else if !s.PaidNobody() && s.CreatedAt.After(newest) {
			newest = s.CreatedAt
		}
	}
	if p.CreatedAt.Sub(newest) < of.Guard-2*o.Skew && named.Before(newest) { // by the clocks of two processes
		o.Violate(PaidOnce, "%s was created %s after a similar payment that its request did not name", of.Key, p.CreatedAt.Sub(newest))
	}
}

// checkSimilar checks that the hash in an answer is that of a similar payment.
func (o *Oracle) checkSimilar(a Answer) {
	similar, is := errors.AsType[*dispatch.SimilarError](a.Err)
	if !is {
		return
	}
	for _, p := range o.similar(a.Order, a.Order.ID()) {
		if p.TxHash == similar.TxHash && !p.TxHash.IsZero() {
			return
		}
	}
	if len(o.past) == 0 {
		o.Violate(AnswersHold, "%s was answered with the hash of no similar payment", a.Order.Key)
	}
}

// Rivals returns an order of each recipient of guarded keys.
func (o *Oracle) Rivals() (all []Order) {
	for _, r := range o.Orders() {
		if r.Guard > 0 && (len(all) == 0 || all[len(all)-1].To != r.To) {
			all = append(all, r)
		}
	}
	return all
}

// Proposed notes a proposal that was stored: its key's payment is its release, or nothing.
func (o *Oracle) Proposed(id payment.ID) { o.proposed[id] = time.Now() }

// Begun checks a release that was begun for p. active reports that its run found the merchant active.
func (o *Oracle) Begun(p proposal.Proposal, active bool) {
	why := ""
	switch {
	case p.Required && p.Approver.Key == "":
		why = "without its approval"
	case p.Approver.Key != "" && p.Approver.Root == p.By.Root:
		why = "with the approval of its own key"
	case time.Now().Add(o.Skew).Before(p.NotBefore):
		why = "before its time"
	case !active:
		why = "for a merchant that its run did not find active"
	default:
		return
	}
	o.Violate(ProposalsHold, "the release of %s was begun %s", p.Payment.ID, why)
}

// Releasing checks an actor that asks for a nonce of a payment. A request that began before the proposal may: the
// payment that it found was discarded since, and its commit is refused.
func (o *Oracle) Releasing(id payment.ID, actor string, began time.Time) {
	switch p, err := o.Store.Proposal(context.Background(), id); {
	case err != nil || !p.Payment.Proposal:
	case !strings.HasPrefix(actor, "release") && !began.IsZero() && began.Before(o.proposed[id]):
	case !strings.HasPrefix(actor, "release"):
		o.Violate(ProposalsHold, "%s asks for a nonce of %s, which a proposal holds", actor, id)
	case time.Now().Add(-o.Skew).After(p.ExpiresAt()):
		o.Violate(ProposalsHold, "%s asks for a nonce of %s after its expiry", actor, id)
	}
}

// Committed checks a payment whose bytes are stored.
func (o *Oracle) Committed(p payment.Payment) {
	if !o.proposed[p.ID].IsZero() && !p.Proposal {
		o.Violate(ProposalsHold, "%s is made beside its proposal", p.ID)
	}
}

// Cancelled notes the answer that an order's proposal has ended.
func (o *Oracle) Cancelled(r Order) {
	o.mu.Lock()
	o.cancelled = append(o.cancelled, r)
	o.mu.Unlock()
	o.checkCancelled()
}

// checkCancelled checks that the keys of proposals are used up that were answered to have ended.
func (o *Oracle) checkCancelled() {
	o.mu.Lock()
	cancelled := slices.Clone(o.cancelled)
	o.mu.Unlock()
	for _, r := range cancelled {
		if p, err := o.Store.Payment(context.Background(), r.ID()); err == nil && !p.State.UsedUp() {
			o.Violate(ProposalsHold, "%s was answered to have ended and is %s", r.Key, p.State)
		}
	}
}
