package memory

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/store"
)

// A rail has the versions of its settings. Its Rail lacks them.
type rail struct {
	store.Rail
	versions []settings.Settings // oldest first
	last     uint64
	unusable error // of the newest
}

// set adds v as the next version if the newest is v's.
func (r *rail) set(v settings.Settings) error {
	if err := settings.Payments.Validate(v); err != nil {
		return err
	}
	if v.Version != r.last {
		return store.ErrChanged
	}
	r.last++
	v.Version, v.At = r.last, v.At.UTC()
	r.versions = append(slices.Clip(r.versions[max(0, len(r.versions)+1-settings.Kept):]), v)
	_, r.unusable = settings.Payments.Decode(v.Stamp, settings.Payments.Encode(v))
	r.ClosedAt = r.ClosedBy(v).UTC()
	return nil
}

func (r *rail) newest() (settings.Settings, error) {
	if r.unusable != nil {
		return settings.Settings{Stamp: settings.Stamp{Version: r.last}}, r.unusable
	}
	return r.versions[len(r.versions)-1], nil
}

func (s *Payments) Rules(ctx context.Context) (r store.Rules, err error) {
	err = s.locked(ctx, func() error {
		r.Denied = slices.SortedFunc(maps.Values(s.denied), func(a, b store.Denial) int { return bytes.Compare(a.To[:], b.To[:]) })
		for _, of := range s.rails {
			of.Settings, of.Unusable = of.newest()
			r.Rails = append(r.Rails, of.Rail)
		}
		return nil
	})
	return r, err
}

func (s *Payments) rail(c token.Coin) int {
	return slices.IndexFunc(s.rails, func(r rail) bool { return r.Coin == c })
}

func (s *Payments) SetSettings(ctx context.Context, v settings.Settings) error {
	return s.locked(ctx, func() error {
		i := s.rail(v.Coin())
		switch {
		case i >= 0 && s.rails[i].Token != v.Token:
			return settings.ErrFixed
		case i >= 0:
			return s.rails[i].set(v)
		case v.Version > 0:
			return store.ErrChanged
		}
		added := rail{Rail: store.Rail{Coin: v.Coin(), Token: v.Token, Added: v.At.UTC()}}
		err := cmp.Or(store.Within("rails", len(s.rails)+1, store.MaxRails), added.set(v))
		if err == nil {
			s.rails = append(s.rails, added)
		}
		return err
	})
}

func (s *Payments) SettingsHistory(ctx context.Context, c token.Coin) ([]settings.Settings, error) {
	return answer(ctx, s, func() ([]settings.Settings, error) {
		i := s.rail(c)
		if i < 0 {
			return nil, nil
		}
		all := slices.DeleteFunc(slices.Clone(s.rails[i].versions), func(v settings.Settings) bool {
			_, err := settings.Payments.Decode(v.Stamp, settings.Payments.Encode(v))
			return err != nil
		})
		slices.Reverse(all)
		return all, nil
	})
}

// SpoilSettings makes the current settings of a rail unusable until others are set.
func (s *Payments) SpoilSettings(c token.Coin, unusable error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rails[s.rail(c)].unusable = unusable
}

func (s *Payments) Deny(ctx context.Context, d store.Denial) error {
	return s.locked(ctx, func() error {
		others := len(s.denied)
		if _, replaced := s.denied[d.To]; replaced {
			others--
		}
		if err := store.FitsDenials(d, others); err != nil {
			return err
		}
		d.At = d.At.UTC()
		s.denied[d.To] = d
		return nil
	})
}

func (s *Payments) Allow(ctx context.Context, to token.Address) error {
	return s.locked(ctx, func() error {
		delete(s.denied, to)
		return nil
	})
}
