package memory

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// A purse is a stored wallet and the run that claims it.
type purse struct {
	w  wallet.Wallet
	by string
}

// read returns the wallet with copies of its maps.
func (p *purse) read() wallet.Wallet {
	w := p.w
	w.Reservations, w.PerMerchant = maps.Clone(w.Reservations), maps.Clone(w.PerMerchant)
	w.Progress.Paid = slices.Clone(w.Progress.Paid)
	return w
}

func (p *purse) keep(seen *wallet.Progress) {
	if seen != nil {
		p.w.Progress = *seen
		p.w.Progress.Paid = slices.Clone(seen.Paid)
	}
}

func (s *Payments) Register(ctx context.Context, r wallet.Registration) error {
	return s.locked(ctx, func() error {
		if stored, registered := s.registry[r.ID]; registered {
			if stored.Token != r.Token {
				return store.ErrOtherRail
			}
			return nil
		}
		r.Since, r.Opened = r.Since.UTC(), false
		s.registry[r.ID] = r
		return nil
	})
}

func (s *Payments) SetState(ctx context.Context, id wallet.ID, from, to wallet.State, at time.Time) error {
	return s.locked(ctx, func() error { return s.setState(id, from, to, at) })
}

func (s *Payments) setState(id wallet.ID, from, to wallet.State, at time.Time) error {
	r, registered := s.registry[id]
	switch {
	case !registered:
		return wallet.ErrUnknown
	case r.State == to:
		return nil
	case r.State != from, !to.Fits(r.Merchant):
		return store.ErrChanged
	}
	r.State, r.Since = to, at.UTC()
	s.registry[id] = r
	return nil
}

func (s *Payments) Retire(ctx context.Context, w wallet.Wallet, at time.Time) error {
	return s.change(ctx, w.ID, func(p *purse) error {
		if s.registry[w.ID].State == wallet.Retired {
			return nil
		}
		if p.w.NextNonce != w.NextNonce || p.w.Paused != w.Paused || len(p.w.Reservations) > 0 {
			return store.ErrChanged
		}
		err := s.setState(w.ID, wallet.Draining, wallet.Retired, at)
		if err == nil {
			p.w.Paused = wallet.RetiredReason
		}
		return err
	})
}

func (s *Payments) Assign(ctx context.Context, w wallet.Wallet, merchant string, at time.Time) error {
	return s.locked(ctx, func() error {
		r, p, state := s.registry[w.ID], s.wallets[w.ID], wallet.Assigned
		if merchant == "" {
			state = wallet.Draining
		}
		switch {
		case p == nil:
			return wallet.ErrUnknown
		case r.State == state && r.Merchant == merchant:
			return nil
		case r.State != wallet.Draining, r.Merchant != w.Merchant, p.w.Merchant != w.Merchant,
			p.w.NextNonce != w.NextNonce, p.w.Paused != w.Paused, len(p.w.Reservations) > 0:
			return store.ErrChanged
		}
		r.State, r.Since, r.Merchant, p.w.Merchant = state, at.UTC(), merchant, merchant
		s.registry[w.ID] = r
		return nil
	})
}

func (s *Payments) Open(ctx context.Context, w wallet.Wallet, of token.Address) error {
	return s.locked(ctx, func() error {
		if s.wallets[w.ID] != nil {
			return nil
		}
		if s.registry[w.ID].Merchant != w.Merchant {
			return store.ErrChanged
		}
		w.Balance, w.Gas = wallet.Spendable(w.Balance), wallet.Spendable(w.Gas)
		reservations := map[payment.ID]wallet.Reservation{}
		maps.Copy(reservations, w.Reservations)
		w.Reservations, w.PerMerchant = reservations, map[string]uint64{}
		s.wallets[w.ID] = &purse{w: w}
		r, registered := s.registry[w.ID]
		if !registered {
			r = wallet.Registration{ID: w.ID, Token: of, State: wallet.Draining, Key: wallet.InSecret}
		}
		r.Opened = true
		s.registry[w.ID] = r
		return nil
	}, store.Within("reservations", len(w.Reservations), wallet.MaxInFlight))
}

func (s *Payments) Wallet(ctx context.Context, id wallet.ID) (w wallet.Wallet, err error) {
	err = s.change(ctx, id, func(p *purse) error {
		w = p.read()
		return nil
	})
	return w, err
}

func (s *Payments) Wallets(ctx context.Context, rail token.Coin) (wallet.Registry, error) {
	return answer(ctx, s, func() (wallet.Registry, error) {
		registry := slices.SortedFunc(maps.Values(s.registry), func(a, b wallet.Registration) int {
			return bytes.Compare(a.Address[:], b.Address[:])
		})
		return slices.DeleteFunc(registry, func(r wallet.Registration) bool {
			return r.ChainID != rail.ChainID || r.Token != rail.Contract
		}), nil
	})
}

func (s *Payments) SetCompared(ctx context.Context, rail token.Coin, c store.Comparison) error {
	return s.locked(ctx, func() error {
		if s.compared[rail].Revision != c.Revision {
			return store.ErrChanged
		}
		c.At, c.Seen, c.Silent, c.Revision = c.At.UTC(), c.Seen.UTC(), maps.Clone(c.Silent), c.Revision+1
		c.Ran, c.Since, c.Abreast = c.Ran.UTC(), c.Since.UTC(), c.Abreast.UTC()
		s.compared[rail] = c
		return nil
	}, store.Within("silent nodes", len(c.Silent), store.MaxNodes))
}

func (s *Payments) Compared(ctx context.Context, rail token.Coin) (store.Comparison, error) {
	return answer(ctx, s, func() (store.Comparison, error) {
		c := s.compared[rail]
		c.Silent = maps.Clone(c.Silent)
		return c, nil
	})
}

func (s *Payments) Claim(ctx context.Context, id wallet.ID, by string, now, until time.Time, seen *wallet.Progress) (held bool, err error) {
	if err := store.FitsProgress(seen); err != nil {
		return false, err
	}
	err = s.change(ctx, id, func(p *purse) error {
		if held = p.by == by || !p.w.ClaimedUntil.After(now); held {
			p.by, p.w.ClaimedUntil = by, until.UTC()
			p.keep(seen)
		}
		return nil
	})
	return held, err
}

func (s *Payments) Reconcile(ctx context.Context, w wallet.Wallet, balance, gas token.Amount,
	perMerchant map[string]uint64, seen *wallet.Progress) error {
	if err := cmp.Or(store.Within("merchants", len(perMerchant), wallet.MaxInFlight), store.FitsProgress(seen)); err != nil {
		return err
	}
	return s.change(ctx, w.ID, func(p *purse) error {
		if p.w.NextNonce != w.NextNonce || p.w.Returned != w.Returned || w.Damaged == "" && p.w.Balance != w.Balance {
			return store.ErrChanged
		}
		p.w.Balance, p.w.Gas, p.w.Damaged = wallet.Spendable(balance), wallet.Spendable(gas), ""
		if perMerchant != nil {
			p.w.PerMerchant = maps.Clone(perMerchant)
		}
		p.keep(seen)
		return nil
	})
}

func (s *Payments) Advance(ctx context.Context, id wallet.ID, next, noopsBelow uint64) error {
	return s.change(ctx, id, func(p *purse) error {
		if p.w.NextNonce <= next {
			p.w.NextNonce, p.w.NoopsBelow = next, noopsBelow
		}
		return nil
	})
}

func (s *Payments) Pause(ctx context.Context, id wallet.ID, reason string) error {
	return s.change(ctx, id, func(p *purse) error {
		p.w.Paused = cmp.Or(reason, wallet.Unexplained)
		return nil
	})
}

func (s *Payments) Repause(ctx context.Context, id wallet.ID, from, to string) error {
	return s.change(ctx, id, func(p *purse) error {
		if p.w.Paused != from && p.w.Paused != to {
			return store.ErrChanged
		}
		p.w.Paused = to
		return nil
	})
}

// change calls f with a stored wallet, or returns wallet.ErrUnknown.
func (s *Payments) change(ctx context.Context, id wallet.ID, f func(*purse) error) error {
	return s.locked(ctx, func() error {
		p := s.wallets[id]
		if p == nil {
			return wallet.ErrUnknown
		}
		return f(p)
	})
}
