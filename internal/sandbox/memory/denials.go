package memory

import (
	"context"
	"errors"

	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/store"
)

var errNobody = errors.New("nobody can pay the zero address or a precompiled contract")

// Deny implements store.Denials.
func (s *Payments) Deny(ctx context.Context, d store.Denial) error {
	return s.locked(ctx, func() error {
		if d.To.IsZero() || d.To.IsPrecompile() {
			return errNobody
		}
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

// Allow implements store.Denials.
func (s *Payments) Allow(ctx context.Context, to token.Address) error {
	return s.locked(ctx, func() error {
		if to.IsZero() || to.IsPrecompile() {
			return errNobody
		}
		delete(s.denied, to)
		return nil
	})
}
