package memory

import (
	"context"
	"maps"
	"time"

	"github.com/remit-payouts/remit/internal/payments/store"
)

func (s *Payments) Take(ctx context.Context, p store.Place, now time.Time, most int) error {
	return s.locked(ctx, func() error {
		maps.DeleteFunc(s.places, func(held store.Place, _ bool) bool { return held.Merchant == p.Merchant && held.Until.Before(now) })
		taken := 0
		for held := range s.places {
			if held.Merchant == p.Merchant {
				taken++
			}
		}
		if taken >= most && !s.places[p] {
			return store.ErrFull
		}
		s.places[p] = true
		return nil
	}, store.Within("places", most, store.MaxPlaces))
}

func (s *Payments) Leave(ctx context.Context, p store.Place) error {
	return s.locked(ctx, func() error {
		delete(s.places, p)
		return nil
	})
}
