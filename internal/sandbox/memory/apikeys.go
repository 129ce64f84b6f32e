package memory

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/merchants/recipient"
)

// APIKeys keeps API keys and address books in memory. The zero APIKeys is empty and ready; it is safe
// for concurrent use.
type APIKeys struct {
	mu        sync.RWMutex
	keys      map[apikey.Hash]*apikey.Key
	merchants map[string][]*apikey.Key // oldest first, mostly
	terms     map[string]apikey.Terms  // by merchant
	book      map[bookKey]recipient.Entry
}

var (
	_ apikey.Store = (*APIKeys)(nil)
)

func (s *APIKeys) Create(_ context.Context, k apikey.Key) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.put(k)
}

func (s *APIKeys) Issue(_ context.Context, k apikey.Key, most int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	valid := 0
	for _, there := range s.merchants[k.MerchantID] {
		if there.Hash != k.Hash && there.Valid(k.CreatedAt) {
			valid++
		}
	}
	if valid >= most {
		return apikey.ErrLimit
	}
	return s.put(k)
}

func (s *APIKeys) put(k apikey.Key) error {
	if there, taken := s.keys[k.Hash]; taken {
		if there.MerchantID == k.MerchantID && there.CreatedAt.Equal(k.CreatedAt) {
			return nil
		}
		return apikey.ErrExists
	}
	if s.keys == nil {
		s.keys, s.merchants = map[apikey.Hash]*apikey.Key{}, map[string][]*apikey.Key{}
	}
	s.keys[k.Hash], s.merchants[k.MerchantID] = &k, append(s.merchants[k.MerchantID], &k)
	return nil
}

func (s *APIKeys) Find(_ context.Context, hash apikey.Hash) (apikey.Key, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	k, ok := s.keys[hash]
	if !ok {
		return apikey.Key{}, apikey.ErrNotFound
	}
	return *k, nil
}

func (s *APIKeys) Named(_ context.Context, merchantID, id string) (apikey.Key, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, k := range s.merchants[merchantID] {
		if k.ID == id {
			return *k, nil
		}
	}
	return apikey.Key{}, apikey.ErrNotFound
}

func (s *APIKeys) Terms(_ context.Context, merchantID string) (apikey.Terms, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.terms[merchantID], nil
}

func (s *APIKeys) SetTerms(_ context.Context, merchantID string, from, to apikey.Terms) error {
	if len(to.Assets) > apikey.MaxAssetTerms {
		return apikey.ErrAssetTerms
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if there := s.terms[merchantID].Text(); there != from.Text() && there != to.Text() {
		return apikey.ErrTerms
	}
	if s.terms == nil {
		s.terms = map[string]apikey.Terms{}
	}
	s.terms[merchantID] = to
	return nil
}

func (s *APIKeys) All(context.Context) ([]apikey.Key, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var all []apikey.Key
	for _, k := range s.keys {
		all = append(all, *k)
	}
	return all, nil
}

func (s *APIKeys) Touch(_ context.Context, hash apikey.Hash, at, since time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, ok := s.keys[hash]
	if !ok {
		return apikey.ErrNotFound
	}
	if !k.LastUsedAt.After(since) {
		k.LastUsedAt = at
	}
	return nil
}

func (s *APIKeys) List(_ context.Context, merchantID string) ([]apikey.Key, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	there := s.merchants[merchantID]
	keys := make([]apikey.Key, 0, len(there))
	for _, k := range slices.Backward(there) {
		keys = append(keys, *k)
	}
	slices.SortStableFunc(keys, apikey.NewestFirst)
	return keys, nil
}

func (s *APIKeys) Replace(_ context.Context, merchantID string, hash apikey.Hash, at time.Time, next apikey.Key) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.keys[hash]
	if k == nil || k.MerchantID != merchantID {
		return apikey.ErrNotFound
	}
	_, stored := s.keys[next.Hash]
	if err := s.put(next); err != nil || stored {
		return err
	}
	if k.ExpiresAt.IsZero() || at.Before(k.ExpiresAt) {
		k.ExpiresAt = at
	}
	return nil
}

func (s *APIKeys) Revoke(_ context.Context, merchantID string, hash apikey.Hash, at time.Time) (apikey.Key, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.keys[hash]
	if k == nil || k.MerchantID != merchantID {
		return apikey.Key{}, apikey.ErrNotFound
	}
	if k.RevokedAt.IsZero() {
		k.RevokedAt = at
	}
	return *k, nil
}
