package memory

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/recipient"
)

var _ recipient.Store = (*APIKeys)(nil)

type bookKey struct {
	merchant, mode string
	address        token.Address
}

func (s *APIKeys) AddEntry(_ context.Context, e recipient.Entry) (recipient.Entry, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := bookKey{e.Merchant, e.Mode, e.Address}
	if there, ok := s.book[k]; ok {
		return there, there == e, nil
	}
	if s.book == nil {
		s.book = map[bookKey]recipient.Entry{}
	}
	s.book[k] = e
	return e, true, nil
}

func (s *APIKeys) Entry(_ context.Context, merchant, mode string, a token.Address) (recipient.Entry, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	e, ok := s.book[bookKey{merchant, mode, a}]
	if !ok {
		return e, recipient.ErrNotFound
	}
	return e, nil
}

func (s *APIKeys) Entries(_ context.Context, merchant, mode string, from recipient.Position,
	limit int) (page []recipient.Entry, more bool, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	order := func(a, b recipient.Entry) int { // newest first
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), bytes.Compare(b.Address[:], a.Address[:]))
	}
	last := recipient.Entry{CreatedAt: from.CreatedAt, Address: from.Address}
	page = []recipient.Entry{}
	for k, e := range s.book {
		if k.merchant == merchant && k.mode == mode && (from.CreatedAt.IsZero() || order(last, e) < 0) {
			page = append(page, e)
		}
	}
	slices.SortFunc(page, order)
	if len(page) > limit {
		return page[:limit], true, nil
	}
	return page, false, nil
}

func (s *APIKeys) DeleteEntry(_ context.Context, merchant, mode string, a token.Address) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := bookKey{merchant, mode, a}
	if _, ok := s.book[k]; !ok {
		return recipient.ErrNotFound
	}
	delete(s.book, k)
	return nil
}
