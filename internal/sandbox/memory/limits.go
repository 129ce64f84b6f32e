package memory

import (
	"context"
	"maps"
	"strings"
	"time"

	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// A day is a UTC day of a merchant in one mode, or of one of its keys.
type day struct {
	merchant, mode, key string
	number              int64 // days since 1970-01-01
}

func dayOf(c store.Charge, key string) day {
	return day{c.Merchant, c.Mode, key, c.At.Unix() / int64(24*time.Hour/time.Second)}
}

type tally struct {
	amount token.Amount
	count  uint64
}

func (s *Payments) Charge(ctx context.Context, c store.Charge) error {
	return s.locked(ctx, func() error {
		if !s.counts(c) {
			return store.ErrDayKeys
		}
		for _, l := range c.Limits {
			spent, most := s.spent[dayOf(c, l.Key)], wallet.Spendable(l.Amount)
			if !most.IsZero() && (most.Less(c.Amount) || most.Sub(c.Amount).Less(spent.amount)) || l.Count > 0 && l.Count < c.Count+spent.count {
				return store.ErrDailyLimit
			}
		}
		for _, l := range c.Limits {
			spent := s.spent[dayOf(c, l.Key)]
			if !l.Amount.IsZero() {
				spent.amount, _ = spent.amount.Add(c.Amount) // at most the limit
			}
			if l.Count > 0 {
				spent.count += c.Count
			}
			s.spent[dayOf(c, l.Key)] = spent
		}
		return nil
	}, store.Within("limits", len(c.Limits), store.MaxLimits))
}

func (s *Payments) counts(c store.Charge) bool {
	keys, fresh := 0, false
	for _, l := range c.Limits {
		_, counted := s.spent[dayOf(c, l.Key)]
		fresh = fresh || l.OfKey() && !counted
	}
	for d := range s.spent {
		if d == dayOf(c, d.key) && strings.HasPrefix(d.key, "key_") {
			keys++
		}
	}
	return !fresh || keys < store.MaxDayKeys
}

func (s *Payments) Refund(ctx context.Context, c store.Charge) error {
	return s.locked(ctx, func() error {
		for _, l := range c.Limits {
			if spent := s.spent[dayOf(c, l.Key)]; !l.Amount.IsZero() && spent.amount.Less(c.Amount) || l.Count > 0 && spent.count < c.Count {
				return nil
			}
		}
		for _, l := range c.Limits {
			spent := s.spent[dayOf(c, l.Key)]
			if !l.Amount.IsZero() {
				spent.amount = spent.amount.Sub(c.Amount)
			}
			if l.Count > 0 {
				spent.count -= c.Count
			}
			s.spent[dayOf(c, l.Key)] = spent
		}
		return nil
	}, store.Within("limits", len(c.Limits), store.MaxLimits))
}

func (s *Payments) Charged(ctx context.Context, merchant, mode, key string, at time.Time) (token.Amount, uint64, error) {
	spent, err := answer(ctx, s, func() (tally, error) {
		return s.spent[dayOf(store.Charge{Merchant: merchant, Mode: mode, At: at}, key)], nil
	})
	return spent.amount, spent.count, err
}

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
