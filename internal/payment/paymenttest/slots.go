package paymenttest

import (
	"cmp"
	"context"
	"slices"

	"remit/internal/payment"
	"remit/internal/wallet"
)

// A slot is a stored slot. Its Hashes are replaced, never changed in place.
type slot struct {
	wallet.Slot
	spoiled bool
}

// Seal implements wallet.Slots.
func (s *Store) Seal(ctx context.Context, p payment.Payment) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if !s.unsealed(p) {
		return payment.ErrChanged
	}
	if !s.put(wallet.SlotOf(p)) {
		return wallet.ErrSlotTaken
	}
	there := s.payments[p.ID]
	sealed := &there.p
	sealed.State, sealed.Nonce, sealed.Attempts, sealed.TxHash = p.State, p.Nonce, bare(p.Attempts), p.TxHash
	sealed.Version, sealed.UpdatedAt = p.Version, p.UpdatedAt
	s.enlist(there)
	return nil
}

// AddAttempt implements wallet.Slots.
func (s *Store) AddAttempt(ctx context.Context, p payment.Payment) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	there, newer := s.payments[p.ID], wallet.SlotOf(p)
	earlier := newer.Hashes[:len(newer.Hashes)-1]
	if there == nil || there.p.State != payment.Sealed || !slices.Equal(there.p.Hashes(), earlier) || !s.bump(newer) {
		return wallet.ErrChanged
	}
	there.p.Attempts = bare(append(slices.Clip(there.p.Attempts), p.LastAttempt()))
	return nil
}

// bare returns attempts without the bytes, which the slot has.
func bare(attempts []payment.Attempt) []payment.Attempt {
	attempts = slices.Clone(attempts)
	for i := range attempts {
		attempts[i].Raw = nil
	}
	return attempts
}

// PutNoop implements wallet.Slots.
func (s *Store) PutNoop(ctx context.Context, n wallet.Slot) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if !s.put(n) {
		return wallet.ErrSlotTaken
	}
	return nil
}

// BumpNoop implements wallet.Slots.
func (s *Store) BumpNoop(ctx context.Context, n wallet.Slot) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if !s.bump(n) {
		return wallet.ErrChanged
	}
	return nil
}

// Slots implements wallet.Slots.
func (s *Store) Slots(ctx context.Context, id wallet.ID) ([]wallet.Slot, int, error) {
	if err := s.enter(ctx); err != nil {
		return nil, 0, err
	}
	defer s.mu.Unlock()
	all, unreadable := make([]wallet.Slot, 0, len(s.slots[id])), 0
	for _, n := range s.slots[id] {
		if n.spoiled {
			unreadable++
			continue
		}
		all = append(all, n.Slot)
	}
	return all, unreadable, nil
}

// Slot implements wallet.Slots.
func (s *Store) Slot(ctx context.Context, id wallet.ID, nonce uint64) (wallet.Slot, error) {
	if err := s.enter(ctx); err != nil {
		return wallet.Slot{}, err
	}
	defer s.mu.Unlock()
	i, found := s.find(id, nonce)
	switch {
	case !found:
		return wallet.Slot{}, wallet.ErrUnknown
	case s.slots[id][i].spoiled:
		return wallet.Slot{}, payment.ErrUnreadable
	default:
		return s.slots[id][i].Slot, nil
	}
}

// DeleteSlot implements wallet.Slots.
func (s *Store) DeleteSlot(ctx context.Context, id wallet.ID, nonce uint64) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if i, found := s.find(id, nonce); found {
		s.slots[id] = slices.Delete(s.slots[id], i, i+1)
	}
	return nil
}

// put stores a slot and its hash unless its nonce has one.
func (s *Store) put(n wallet.Slot) bool {
	i, found := s.find(n.ID, n.Nonce)
	if found {
		return false
	}
	s.slots[n.ID] = slices.Insert(s.slots[n.ID], i, &slot{Slot: n})
	s.hashes[n.Hash()] = n.Payment
	return true
}

// bump stores the newest attempt of n, and its hash, over the attempts before
// it, if those are what is stored.
func (s *Store) bump(n wallet.Slot) bool {
	i, found := s.find(n.ID, n.Nonce)
	if !found {
		return false
	}
	there := &s.slots[n.ID][i].Slot
	if there.Payment != n.Payment || !slices.Equal(there.Hashes, n.Hashes[:len(n.Hashes)-1]) {
		return false
	}
	there.Hashes = append(slices.Clip(there.Hashes), n.Hash())
	there.Raw, there.Fees, there.At, there.Gas = n.Raw, n.Fees, n.At, n.Gas
	s.hashes[n.Hash()] = n.Payment
	return true
}

func (s *Store) find(id wallet.ID, nonce uint64) (int, bool) {
	return slices.BinarySearchFunc(s.slots[id], nonce, func(n *slot, nonce uint64) int {
		return cmp.Compare(n.Nonce, nonce)
	})
}
