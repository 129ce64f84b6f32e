package memory

import (
	"cmp"
	"context"
	"iter"
	"slices"

	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
)

// An account is a merchant's mode: each has a list of its own.
type account struct{ merchant, mode string }

func (s *Payments) List(ctx context.Context, f store.Filter) (page []payment.Payment, more bool, err error) {
	err = s.locked(ctx, func() error {
		page, more = s.page(f)
		return nil
	})
	return page, more, err
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
			if id == "" && !yield(store.Entry{Noop: hash}, nil) {
				return
			}
		}
	}
}

func (s *Payments) page(f store.Filter) (page []payment.Payment, more bool) {
	limit := f.Limit
	if limit < 1 || limit > maxPage {
		limit = maxPage
	}
	list := s.lists[account{f.Merchant, f.Mode}]
	end := len(list)
	if !f.From.CreatedAt.IsZero() {
		end, _ = slices.BinarySearchFunc(list, f.From, atPosition)
	}
	page = []payment.Payment{}
	for _, r := range slices.Backward(list[:end]) {
		if !f.After.IsZero() && !r.p.CreatedAt.After(f.After) {
			break
		}
		if r.spoiled || !matches(&r.p, f) {
			continue
		}
		if len(page) == limit {
			return page, true
		}
		page = append(page, r.p)
	}
	return page, false
}

// maxPage is the most payments a page holds (store.Filter.Limit).
const maxPage = 100

func matches(p *payment.Payment, f store.Filter) bool {
	return (f.Before.IsZero() || p.CreatedAt.Before(f.Before)) &&
		(f.Status == "" || p.State.Status() == f.Status)
}

// enlist puts a payment that has just been committed into its merchant's list.
// Payments are committed nearly in the order of their creation, so an insertion
// moves little more than the end of the list.
func (s *Payments) enlist(r *record) {
	by := account{r.p.Merchant, r.p.Mode}
	list := s.lists[by]
	i, _ := slices.BinarySearchFunc(list, store.Position{CreatedAt: r.p.CreatedAt, ID: r.p.ID}, atPosition)
	s.lists[by] = slices.Insert(list, i, r)
}

func atPosition(r *record, at store.Position) int {
	return cmp.Or(r.p.CreatedAt.Compare(at.CreatedAt), cmp.Compare(r.p.ID, at.ID))
}
