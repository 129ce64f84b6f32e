package memory

import (
	"context"
	"reflect"
	"slices"
	"time"

	"remit/internal/webhook"
)

// A log holds the deliveries of one endpoint.
type log struct {
	byID map[string]webhook.Delivery
	ids  []string // ascending, which is oldest first
}

// AddDeliveries implements webhook.DeliveryStore.
func (s *Webhooks) AddDeliveries(_ context.Context, ds []webhook.Delivery) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range ds {
		k := endpointKey{d.Owner, d.Endpoint}
		l := s.logs[k]
		if l == nil {
			l = &log{byID: map[string]webhook.Delivery{}}
			s.logs[k] = l
		}
		if l.add(d) && d.Parked {
			s.parked[d.Ref] = d.NextAttemptAt
		}
	}
	return nil
}

// add keeps d, and reports whether it did: a delivery that is there stays.
func (l *log) add(d webhook.Delivery) bool {
	if _, ok := l.byID[d.Delivery]; ok {
		return false
	}
	l.byID[d.Delivery] = d
	at, _ := slices.BinarySearch(l.ids, d.Delivery)
	l.ids = slices.Insert(l.ids, at, d.Delivery)
	if len(l.ids) > logLimit {
		final := func(id string) bool { return l.byID[id].Status != webhook.Pending }
		if oldest := slices.IndexFunc(l.ids, final); oldest >= 0 {
			delete(l.byID, l.ids[oldest])
			l.ids = slices.Delete(l.ids, oldest, oldest+1)
		}
	}
	return true
}

// Load implements webhook.DeliveryStore.
func (s *Webhooks) Load(_ context.Context, r webhook.Ref) (webhook.Endpoint, webhook.Delivery, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, ok := s.delivery(r)
	if !ok {
		return webhook.Endpoint{}, webhook.Delivery{}, webhook.ErrDeliveryNotFound
	}
	e, ok := s.endpoints[r.Owner][r.Endpoint]
	if !ok {
		e = webhook.Endpoint{Owner: r.Owner, ID: r.Endpoint, Status: webhook.Deleted}
	}
	return e, d, nil
}

func (s *Webhooks) delivery(r webhook.Ref) (webhook.Delivery, bool) {
	l := s.logs[endpointKey{r.Owner, r.Endpoint}]
	if l == nil {
		return webhook.Delivery{}, false
	}
	d, ok := l.byID[r.Delivery]
	return d, ok
}

// Record implements webhook.DeliveryStore.
func (s *Webhooks) Record(_ context.Context, d webhook.Delivery, attempts int) (webhook.Delivery, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stored, ok := s.delivery(d.Ref)
	if !ok {
		return webhook.Delivery{}, webhook.ErrDeliveryNotFound
	}
	open := stored.Status == webhook.Pending || d.Status == webhook.Delivered && stored.Status != webhook.Delivered
	if !open || len(stored.Attempts) != attempts {
		if stored.Status == d.Status && reflect.DeepEqual(stored.Attempts, d.Attempts) {
			return stored, nil
		}
		return stored, webhook.ErrConflict
	}
	stored.Status, stored.Attempts = d.Status, slices.Clone(d.Attempts)
	stored.NextAttemptAt, stored.Parked = d.NextAttemptAt, d.Parked
	s.logs[endpointKey{d.Owner, d.Endpoint}].byID[d.Delivery] = stored
	if stored.Parked {
		s.parked[d.Ref] = stored.NextAttemptAt
	} else {
		delete(s.parked, d.Ref)
	}
	return stored, nil
}

// Deliveries implements webhook.DeliveryStore.
func (s *Webhooks) Deliveries(_ context.Context, o webhook.Owner, endpoint string, from, to time.Time, limit int) ([]webhook.Delivery, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []webhook.Delivery{}
	l := s.logs[endpointKey{o, endpoint}]
	if l == nil {
		return list, nil
	}
	end := len(l.ids)
	if !to.IsZero() {
		end, _ = slices.BinarySearch(l.ids, webhook.FirstID(to))
	}
	begin, _ := slices.BinarySearch(l.ids, webhook.FirstID(from))
	for _, id := range slices.Backward(l.ids[min(begin, end):end]) {
		if len(list) == limit {
			break
		}
		d := l.byID[id]
		d.Event.Body = nil
		list = append(list, d)
	}
	return list, nil
}
