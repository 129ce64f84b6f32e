package memory

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/remit-payouts/remit/internal/merchants/webhook"
)

// logLimit is the number of deliveries kept per endpoint. A delivery above it
// displaces the oldest final one.
const logLimit = 1000

// Webhooks is a webhook.Store in memory, safe for concurrent use. Make one with
// NewWebhooks.
type Webhooks struct {
	mu        sync.Mutex
	endpoints map[endpointKey]webhook.Endpoint
	logs      map[endpointKey][]*webhook.Delivery // by ascending id, which is oldest first
}

var _ webhook.Store = (*Webhooks)(nil)

// NewWebhooks returns an empty store.
func NewWebhooks() *Webhooks {
	return &Webhooks{endpoints: map[endpointKey]webhook.Endpoint{}, logs: map[endpointKey][]*webhook.Delivery{}}
}

type endpointKey struct {
	webhook.Owner
	id string
}

func (s *Webhooks) AddEndpoint(_ context.Context, e webhook.Endpoint, limit int) error {
	if err := e.Fits(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.endpoints[endpointKey{e.Owner, e.ID}]; ok {
		return nil
	}
	if len(s.list(e.Owner)) >= limit {
		return webhook.ErrLimit
	}
	s.endpoints[endpointKey{e.Owner, e.ID}] = e
	return nil
}

func (s *Webhooks) Endpoints(_ context.Context, o webhook.Owner) ([]webhook.Endpoint, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.list(o), nil
}

// list is Endpoints for callers that hold the lock.
func (s *Webhooks) list(o webhook.Owner) []webhook.Endpoint {
	list := []webhook.Endpoint{}
	for _, e := range s.endpoints {
		if e.Owner == o && e.Status != webhook.Deleted {
			list = append(list, e)
		}
	}
	slices.SortFunc(list, webhook.NewestFirst)
	return list
}

func (s *Webhooks) Endpoint(_ context.Context, o webhook.Owner, id string) (webhook.Endpoint, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.endpoints[endpointKey{o, id}]
	if !ok {
		return webhook.Endpoint{}, webhook.ErrNotFound
	}
	return e, nil
}

func (s *Webhooks) SaveEndpoint(_ context.Context, e webhook.Endpoint) (webhook.Endpoint, error) {
	if err := e.Fits(); err != nil {
		return webhook.Endpoint{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	stored, ok := s.endpoints[endpointKey{e.Owner, e.ID}]
	switch {
	case !ok || stored.Status == webhook.Deleted:
		return webhook.Endpoint{}, webhook.ErrNotFound
	case stored.Version != e.Version:
		return webhook.Endpoint{}, fmt.Errorf("version %d is stored: %w", stored.Version, webhook.ErrConflict)
	}
	e.Version++
	s.endpoints[endpointKey{e.Owner, e.ID}] = e
	return e, nil
}
