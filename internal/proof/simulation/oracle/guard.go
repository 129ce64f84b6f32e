package oracle

import (
	"context"
	"errors"
	"time"

	"github.com/remit-payouts/remit/internal/payments/dispatch"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
)

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
	if p.CreatedAt.Sub(newest) < of.Guard && named.Before(newest) {
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
