package memory

import (
	"context"
	"slices"
	"time"

	"remit/internal/webhook"
)

// Due implements webhook.DueStore. It never lags.
func (s *Webhooks) Due(_ context.Context, now time.Time, limit int) ([]webhook.Due, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var due []webhook.Due
	for r, at := range s.parked {
		if !at.After(now) {
			due = append(due, webhook.Due{Ref: r, At: at})
		}
	}
	slices.SortFunc(due, func(a, b webhook.Due) int { return a.At.Compare(b.At) })
	return due[:min(limit, len(due))], nil
}

// Unpark implements webhook.DueStore.
func (s *Webhooks) Unpark(_ context.Context, due webhook.Due) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, ok := s.delivery(due.Ref)
	if !ok || !d.Parked || !d.NextAttemptAt.Equal(due.At) {
		return nil
	}
	d.Parked = false
	s.logs[endpointKey{d.Owner, d.Endpoint}].byID[d.Delivery] = d
	delete(s.parked, due.Ref)
	return nil
}
