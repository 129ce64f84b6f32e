package paymenttest

import (
	"context"

	"remit/internal/chain"
	"remit/internal/payment"
)

// Create implements payment.Store.
func (s *Store) Create(ctx context.Context, p payment.Payment) (payment.Payment, bool, error) {
	if err := s.enter(ctx); err != nil {
		return payment.Payment{}, false, err
	}
	defer s.mu.Unlock()
	if there := s.payments[p.ID]; there != nil {
		stored, err := there.read()
		return stored, false, err
	}
	s.payments[p.ID] = &record{p: p}
	return p, true, nil
}

// Payment implements payment.Store.
func (s *Store) Payment(ctx context.Context, id payment.ID) (payment.Payment, error) {
	if err := s.enter(ctx); err != nil {
		return payment.Payment{}, err
	}
	defer s.mu.Unlock()
	return s.payment(id)
}

func (s *Store) payment(id payment.ID) (payment.Payment, error) {
	there := s.payments[id]
	if there == nil {
		return payment.Payment{}, payment.ErrNotFound
	}
	return there.read()
}

// PaymentByHash implements payment.Store.
func (s *Store) PaymentByHash(ctx context.Context, hash chain.Hash) (payment.Payment, error) {
	if err := s.enter(ctx); err != nil {
		return payment.Payment{}, err
	}
	defer s.mu.Unlock()
	return s.payment(s.hashes[hash])
}

// Repin implements payment.Store.
func (s *Store) Repin(ctx context.Context, p payment.Payment, old string) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	there := s.payments[p.ID]
	if there == nil || there.p.State != payment.Unsealed || (there.p.Pin != old && there.p.Pin != p.Pin) {
		return payment.ErrChanged
	}
	there.p.Wallet, there.p.Tx, there.p.Pin = p.Wallet, p.Tx, p.Pin
	return nil
}

// Withdraw implements payment.Store.
func (s *Store) Withdraw(ctx context.Context, p payment.Payment) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if !s.unsealed(p) {
		return payment.ErrChanged
	}
	delete(s.payments, p.ID)
	return nil
}

// unsealed reports whether p is stored unsealed and pinned as p says.
func (s *Store) unsealed(p payment.Payment) bool {
	there := s.payments[p.ID]
	return there != nil && there.p.State == payment.Unsealed && there.p.Pin == p.Pin
}

// Finish implements payment.Store.
func (s *Store) Finish(ctx context.Context, p payment.Payment) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	there := s.payments[p.ID]
	if there == nil || there.p.State != payment.Sealed {
		return payment.ErrChanged
	}
	end := &there.p
	end.State, end.Onchain, end.Block, end.Failure, end.Event = p.State, p.Onchain, p.Block, p.Failure, p.Event
	end.Version, end.UpdatedAt = p.Version, p.UpdatedAt
	return nil
}
