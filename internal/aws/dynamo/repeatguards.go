package dynamo

import (
	"context"

	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
)

type guardItem struct {
	PK       string       `dynamodbav:"pk"`
	SK       string       `dynamodbav:"sk"`
	Payments []payment.ID `dynamodbav:"payments"`
	Version  uint64       `dynamodbav:"version"`
	TTL      int64        `dynamodbav:"ttl"`
}

func (s *Payments) Guard(ctx context.Context, id string) (store.Guard, error) {
	g, err := get(ctx, s.table, guardKey(id), "guard "+id, nil, func(item attributes) (store.Guard, error) {
		var it guardItem
		r := read(item, &it)
		r.require("payments", len(it.Payments) > 0)
		return readable(r, store.Guard{Payments: it.Payments, Version: it.Version}, "guard "+id)
	})
	g.ID = id
	return g, err
}

// CreateGuarded implements store.Payments with one transaction: the payment, its guard. When the SDK repeats it after
// a lost answer, its token makes the answer the first one.
func (s *Payments) CreateGuarded(ctx context.Context, p payment.Payment, g store.Guard) (payment.Payment, bool, error) {
	stored, created := p, true
	err := s.transact(ctx, "putting "+string(p.ID),
		write{create(encodePayment(p), store.FitsPayment(p)), func(there attributes) (err error) {
			created = false
			stored, err = decodePayment(there)
			return err
		}},
		putGuard(g, p))
	if err != nil {
		return payment.Payment{}, false, err
	}
	return stored, created, nil
}

// putGuard stores g with p, if the guard of g's version is stored.
func putGuard(g store.Guard, p payment.Payment) write {
	next := g.With(p)
	item := encode(guardItem{guardPrefix + g.ID, "guard", next.Payments, next.Version, p.CreatedAt.Add(store.GuardKept).Unix()})
	c := create(item, store.FitsGuard(g))
	if g.Version > 0 {
		c.still = args{"version": g.Version}
	}
	return write{c, is(store.ErrChanged)}
}
