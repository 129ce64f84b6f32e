package memory

import (
	"context"

	"remit/internal/payment"
	"remit/internal/wallet"
)

// Reserve implements store.Nonces.
func (s *Payments) Reserve(ctx context.Context, r wallet.Need) (w wallet.Wallet, err error) {
	err = s.change(ctx, r.Wallet, func(p *purse) error {
		_, held := p.w.Reservations[r.Payment]
		refusal := p.w.Refusal(r)
		if !held && refusal == nil {
			p.w.Reservations[r.Payment] = wallet.Reservation{Nonce: p.w.NextNonce, At: r.At.UTC()}
			p.w.NextNonce++
			p.w.Token, p.w.Gas = p.w.Token.Sub(r.Token), p.w.Gas.Sub(r.Gas)
		}
		w = p.read()
		if held {
			return nil
		}
		return refusal
	})
	return w, err
}

// Release implements store.Nonces.
func (s *Payments) Release(ctx context.Context, id payment.ID, pendingTx wallet.PendingTx) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if p := s.wallets[pendingTx.ID]; p != nil {
		if reservation, held := p.w.Reservations[id]; held && reservation.Nonce == pendingTx.Nonce {
			delete(p.w.Reservations, id)
		}
	}
	return nil
}

// RaiseCeiling implements store.Nonces.
func (s *Payments) RaiseCeiling(ctx context.Context, id wallet.ID, ceiling uint64) error {
	return s.change(ctx, id, func(p *purse) error {
		p.w.Ceiling = max(p.w.Ceiling, ceiling)
		return nil
	})
}
