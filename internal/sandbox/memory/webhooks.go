package memory

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/remit-payouts/remit/internal/merchants/webhook"
)

// logLimit is the number of deliveries kept per endpoint. A delivery above it displaces the oldest final one.
const logLimit = 10_000

// Webhooks is a webhook.Store in memory, safe for concurrent use. Make one with NewWebhooks.
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

func (s *Webhooks) AddDelivery(_ context.Context, d webhook.Delivery) error {
	if err := webhook.FitsDelivery(d); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(d)
	return nil
}

// add is AddDelivery for callers that hold the lock.
func (s *Webhooks) add(d webhook.Delivery) {
	k := endpointKey{d.Owner, d.Endpoint}
	log := s.logs[k]
	i, found := at(log, d.Delivery)
	if found {
		return
	}
	log = slices.Insert(log, i, &d)
	if len(log) > logLimit {
		final := func(d *webhook.Delivery) bool { return d.Status != webhook.Pending }
		if oldest := slices.IndexFunc(log, final); oldest >= 0 {
			log = slices.Delete(log, oldest, oldest+1)
		}
	}
	s.logs[k] = log
}

func at(log []*webhook.Delivery, id string) (int, bool) {
	return slices.BinarySearchFunc(log, id, func(d *webhook.Delivery, id string) int { return cmp.Compare(d.Delivery, id) })
}

func (s *Webhooks) delivery(r webhook.Ref) *webhook.Delivery {
	log := s.logs[endpointKey{r.Owner, r.Endpoint}]
	if i, found := at(log, r.Delivery); found {
		return log[i]
	}
	return nil
}

func (s *Webhooks) Load(_ context.Context, r webhook.Ref) (webhook.Endpoint, webhook.Delivery, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.endpoints[endpointKey{r.Owner, r.Endpoint}]
	if !ok {
		e = webhook.Endpoint{Owner: r.Owner, ID: r.Endpoint, Status: webhook.Deleted}
	}
	d := s.delivery(r)
	if d == nil {
		return e, webhook.Delivery{}, webhook.ErrDeliveryNotFound
	}
	return e, *d, nil
}

func (s *Webhooks) Record(_ context.Context, d webhook.Delivery, attempts int) (webhook.Delivery, error) {
	if err := webhook.FitsDelivery(d); err != nil {
		return webhook.Delivery{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	stored := s.delivery(d.Ref)
	if stored == nil && attempts == 0 {
		d.Attempts = slices.Clone(d.Attempts)
		s.add(d)
		return d, nil
	}
	if stored == nil {
		return webhook.Delivery{}, webhook.ErrDeliveryNotFound
	}
	open := stored.Status == webhook.Pending || d.Status == webhook.Delivered && stored.Status != webhook.Delivered
	if !open || len(stored.Attempts) != attempts {
		if stored.Status == d.Status && reflect.DeepEqual(stored.Attempts, d.Attempts) {
			return *stored, nil
		}
		return *stored, webhook.ErrConflict
	}
	stored.Status, stored.Attempts = d.Status, slices.Clone(d.Attempts)
	stored.NextAttemptAt, stored.Parked, stored.EndedAt = d.NextAttemptAt, d.Parked, d.EndedAt
	return *stored, nil
}

func (s *Webhooks) Deliveries(_ context.Context, o webhook.Owner, endpoint string, from, to time.Time,
	limit int) ([]webhook.Delivery, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	log := s.logs[endpointKey{o, endpoint}]
	end := len(log)
	if !to.IsZero() {
		end, _ = at(log, webhook.FirstID(to))
	}
	begin, _ := at(log, webhook.FirstID(from))
	list := []webhook.Delivery{}
	for _, stored := range slices.Backward(log[min(begin, end):end]) {
		if len(list) == limit {
			break
		}
		d := *stored
		d.Event.Body = nil
		list = append(list, d)
	}
	return list, nil
}

// Due implements webhook.DueStore. It never lags.
func (s *Webhooks) Due(_ context.Context, now time.Time, limit int) ([]webhook.Due, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var due []webhook.Due
	for _, log := range s.logs {
		for _, d := range log {
			if d.Parked && !d.NextAttemptAt.After(now) {
				due = append(due, webhook.Due{Ref: d.Ref, At: d.NextAttemptAt})
			}
		}
	}
	slices.SortFunc(due, func(a, b webhook.Due) int { return a.At.Compare(b.At) })
	return webhook.Ends(due, limit), nil
}

func (s *Webhooks) Unpark(_ context.Context, due webhook.Due) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d := s.delivery(due.Ref); d != nil && d.Parked && d.NextAttemptAt.Equal(due.At) {
		d.Parked = false
	}
	return nil
}
