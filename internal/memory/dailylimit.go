package memory

import (
	"context"
	"time"

	"remit/internal/store"
	"remit/internal/token"
	"remit/internal/wallet"
)

// A day is a merchant's UTC day in one mode.
type day struct {
	merchant, mode string
	number         int64 // days since 1970-01-01
}

func dayOf(merchant, mode string, now time.Time) day {
	return day{merchant, mode, now.Unix() / int64(24*time.Hour/time.Second)}
}

// Charge implements store.DailyLimits.
func (s *Payments) Charge(ctx context.Context, merchant, mode string, amount, limit token.Amount, now time.Time) error {
	return s.locked(ctx, func() error {
		limit = wallet.Spendable(limit)
		d := dayOf(merchant, mode, now)
		if limit.Less(amount) || limit.Sub(amount).Less(s.spent[d]) {
			return store.ErrDailyLimit
		}
		spent, err := s.spent[d].Add(amount)
		if err != nil {
			return store.ErrDailyLimit
		}
		s.spent[d] = spent
		return nil
	})
}

// Refund implements store.DailyLimits.
func (s *Payments) Refund(ctx context.Context, merchant, mode string, amount token.Amount, now time.Time) error {
	return s.locked(ctx, func() error {
		d := dayOf(merchant, mode, now)
		if spent, ok := s.spent[d]; ok && !spent.Less(amount) {
			s.spent[d] = spent.Sub(amount)
		}
		return nil
	})
}
