package memory

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
)

func (s *Payments) Create(ctx context.Context, p payment.Payment) (payment.Payment, bool, error) {
	return s.CreateGuarded(ctx, p, store.Guard{})
}

func (s *Payments) CreateGuarded(ctx context.Context, p payment.Payment, g store.Guard) (stored payment.Payment, created bool, err error) {
	err = s.locked(ctx, func() error {
		switch there := s.payments[p.ID]; {
		case there != nil:
			stored, err = there.read()
			return err
		case s.guards[g.ID].Version != g.Version:
			return store.ErrChanged
		case g.ID != "":
			s.guards[g.ID] = g.With(p)
		}
		s.payments[p.ID] = &record{p: p}
		stored, created = p, true
		return nil
	}, store.FitsPayment(p), store.FitsGuard(g))
	return stored, created, err
}

func (s *Payments) Guard(ctx context.Context, id string) (store.Guard, error) {
	return answer(ctx, s, func() (store.Guard, error) {
		g := s.guards[id]
		return store.Guard{ID: id, Payments: g.Payments, Version: g.Version}, nil
	})
}

func (s *Payments) Payment(ctx context.Context, id payment.ID) (payment.Payment, error) {
	return answer(ctx, s, func() (payment.Payment, error) { return s.payment(id) })
}

func (s *Payments) payment(id payment.ID) (payment.Payment, error) {
	there := s.payments[id]
	if there == nil {
		return payment.Payment{}, store.ErrNotFound
	}
	return there.read()
}

func (s *Payments) PaymentByHash(ctx context.Context, hash chain.Hash) (payment.Payment, error) {
	return answer(ctx, s, func() (payment.Payment, error) { return s.payment(s.hashes[hash]) })
}

func (s *Payments) Reassign(ctx context.Context, p payment.Payment, old string) error {
	return s.locked(ctx, func() error {
		there := s.payments[p.ID]
		if there == nil || there.p.State != payment.Prepared || there.p.Revision != old && there.p.Revision != p.Revision {
			return store.ErrChanged
		}
		there.p.Wallet, there.p.Tx, there.p.Revision = p.Wallet, p.Tx, p.Revision
		return nil
	}, store.FitsPayment(p))
}

func (s *Payments) Discard(ctx context.Context, p payment.Payment) error {
	return s.locked(ctx, func() error {
		if !s.prepared(p) || s.payments[p.ID].p.Proposal {
			return store.ErrChanged
		}
		delete(s.payments, p.ID)
		return nil
	})
}

func (s *Payments) prepared(p payment.Payment) bool {
	there := s.payments[p.ID]
	return there != nil && there.p.State == payment.Prepared && there.p.Revision == p.Revision
}

func (s *Payments) Adopt(ctx context.Context, p payment.Payment) error {
	return s.locked(ctx, func() error {
		there := s.payments[p.ID]
		if there == nil || there.p.Merchant != "" || there.p.State == payment.Prepared || there.p.Version != p.Version-1 {
			return store.ErrChanged
		}
		own := &there.p
		own.Merchant, own.Mode, own.IdempotencyKey, own.Fingerprint = p.Merchant, p.Mode, p.IdempotencyKey, p.Fingerprint
		own.Reference, own.Metadata, own.Entries, own.Version = p.Reference, p.Metadata, p.Entries, p.Version
		return nil
	}, store.FitsPayment(p))
}

func (s *Payments) Redact(ctx context.Context, p payment.Payment) error {
	return s.locked(ctx, func() error {
		there := s.payments[p.ID]
		if there == nil || !there.p.State.Final() {
			return store.ErrChanged
		}
		there.p.Reference, there.p.Metadata, there.p.Entries, there.p.Event = "", nil, p.Entries, p.Event
		return nil
	}, store.FitsPayment(p))
}

func (s *Payments) SetMined(ctx context.Context, id payment.ID, at time.Time) (payment.Payment, error) {
	return answer(ctx, s, func() (payment.Payment, error) {
		there := s.payments[id]
		if there == nil || there.p.State != payment.Committed {
			return payment.Payment{}, store.ErrChanged
		}
		if there.p.MinedAt.IsZero() {
			there.p.MinedAt = at.UTC().Truncate(time.Millisecond)
		}
		return there.read()
	})
}

func (s *Payments) Finish(ctx context.Context, p payment.Payment) error {
	return s.locked(ctx, func() error {
		there := s.payments[p.ID]
		if there == nil || there.p.State != payment.Committed || there.p.Version != p.Version-1 {
			return store.ErrChanged
		}
		end := &there.p
		end.State, end.Onchain, end.Block, end.Fee, end.Failure, end.Event = p.State, p.Onchain, p.Block, p.Fee, p.Failure, p.Event
		end.Version, end.UpdatedAt = p.Version, p.UpdatedAt
		return nil
	}, store.FitsPayment(p))
}

func (s *Payments) Append(ctx context.Context, e store.Act) error {
	return s.locked(ctx, func() error {
		if !slices.Contains(s.audit, e) {
			s.audit = append(s.audit, e)
		}
		return nil
	})
}

func (s *Payments) Acts(ctx context.Context, since time.Time) ([]store.Act, error) {
	return answer(ctx, s, func() ([]store.Act, error) {
		acts := slices.DeleteFunc(slices.Clone(s.audit), func(e store.Act) bool { return e.At.Before(since) })
		slices.SortStableFunc(acts, func(a, b store.Act) int { return a.At.Compare(b.At) })
		return acts, nil
	})
}

func (s *Payments) List(ctx context.Context, f store.Filter) (page []payment.Payment, next store.Position, err error) {
	err = s.locked(ctx, func() error {
		all := []payment.Payment{}
		for _, r := range s.payments {
			if r.p.State.Signed() && !r.spoiled && matches(&r.p, f) {
				all = append(all, r.p)
			}
		}
		page, next = newest(all, f.From, f.Limit, func(p payment.Payment) store.Position {
			return store.Position{CreatedAt: p.CreatedAt, ID: p.ID}
		})
		return nil
	})
	return page, next, err
}

func (s *Payments) Entries(ctx context.Context) iter.Seq2[store.Entry, error] {
	image := s.Image()
	return func(yield func(store.Entry, error) bool) {
		for _, r := range image.payments {
			if p, err := r.read(); !yield(store.Entry{Payment: p}, cmp.Or(ctx.Err(), err)) || ctx.Err() != nil {
				return
			}
		}
		for hash, id := range image.hashes {
			if id == "" && (!yield(store.Entry{Noop: hash}, ctx.Err()) || ctx.Err() != nil) {
				return
			}
		}
	}
}

// maxPage is the most values on a page.
const maxPage = 100

// newest returns the page of the values behind a position, newest first, and its last position if there are more.
func newest[T any](all []T, from store.Position, limit int, at func(T) store.Position) (page []T, next store.Position) {
	page = slices.DeleteFunc(all, func(v T) bool { return !from.IsZero() && !from.After(at(v)) })
	slices.SortFunc(page, func(a, b T) int {
		return cmp.Or(at(b).CreatedAt.Compare(at(a).CreatedAt), cmp.Compare(at(b).ID, at(a).ID))
	})
	if limit < 1 || limit > maxPage {
		limit = maxPage
	}
	if len(page) > limit {
		page, next = page[:limit], at(page[limit-1])
	}
	return page, next
}

func matches(p *payment.Payment, f store.Filter) bool {
	return p.Merchant == f.Merchant && p.Mode == f.Mode && (f.Reference == "" || p.Reference == f.Reference) &&
		(f.Status == "" || p.State.Status() == f.Status) && (f.Asset == (token.Coin{}) || p.Coin() == f.Asset) &&
		(f.Before.IsZero() || p.CreatedAt.Before(f.Before)) && (f.After.IsZero() || p.CreatedAt.After(f.After))
}
