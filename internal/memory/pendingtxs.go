package memory

import (
	"cmp"
	"context"
	"slices"

	"remit/internal/payment"
	"remit/internal/store"
	"remit/internal/wallet"
)

// A pending transaction is a stored pending transaction. Its Hashes are replaced, never changed in place.
type pendingTx struct {
	wallet.PendingTx
	spoiled bool
}

// Commit implements store.PendingTxs.
func (s *Payments) Commit(ctx context.Context, p payment.Payment) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if !s.prepared(p) {
		return store.ErrChanged
	}
	if !s.put(store.PendingTxOf(p)) {
		return store.ErrNonceTaken
	}
	there := s.payments[p.ID]
	committed := &there.p
	committed.State, committed.Nonce, committed.Attempts, committed.TxHash = p.State, p.Nonce, bare(p.Attempts), p.TxHash
	committed.Version, committed.UpdatedAt = p.Version, p.UpdatedAt
	s.enlist(there)
	return nil
}

// AddAttempt implements store.PendingTxs.
func (s *Payments) AddAttempt(ctx context.Context, p payment.Payment) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	there, newer := s.payments[p.ID], store.PendingTxOf(p)
	earlier := newer.Hashes[:len(newer.Hashes)-1]
	if there == nil || there.p.State != payment.Committed || !slices.Equal(there.p.Hashes(), earlier) || !s.bump(newer) {
		return store.ErrChanged
	}
	there.p.Attempts = bare(append(slices.Clip(there.p.Attempts), p.LastAttempt()))
	return nil
}

// bare returns attempts without the bytes, which the pending transaction has.
func bare(attempts []payment.Attempt) []payment.Attempt {
	attempts = slices.Clone(attempts)
	for i := range attempts {
		attempts[i].Raw = nil
	}
	return attempts
}

// PutNoop implements store.PendingTxs.
func (s *Payments) PutNoop(ctx context.Context, n wallet.PendingTx) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if !s.put(n) {
		return store.ErrNonceTaken
	}
	return nil
}

// BumpNoop implements store.PendingTxs.
func (s *Payments) BumpNoop(ctx context.Context, n wallet.PendingTx) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if !s.bump(n) {
		return store.ErrChanged
	}
	return nil
}

// PendingTxs implements store.PendingTxs.
func (s *Payments) PendingTxs(ctx context.Context, id wallet.ID) ([]wallet.PendingTx, int, error) {
	if err := s.enter(ctx); err != nil {
		return nil, 0, err
	}
	defer s.mu.Unlock()
	all, unreadable := make([]wallet.PendingTx, 0, len(s.pendingTxs[id])), 0
	for _, n := range s.pendingTxs[id] {
		if n.spoiled {
			unreadable++
			continue
		}
		all = append(all, n.PendingTx)
	}
	return all, unreadable, nil
}

// PendingTx implements store.PendingTxs.
func (s *Payments) PendingTx(ctx context.Context, id wallet.ID, nonce uint64) (wallet.PendingTx, error) {
	if err := s.enter(ctx); err != nil {
		return wallet.PendingTx{}, err
	}
	defer s.mu.Unlock()
	i, found := s.find(id, nonce)
	switch {
	case !found:
		return wallet.PendingTx{}, wallet.ErrUnknown
	case s.pendingTxs[id][i].spoiled:
		return wallet.PendingTx{}, store.ErrUnreadable
	default:
		return s.pendingTxs[id][i].PendingTx, nil
	}
}

// DeletePendingTx implements store.PendingTxs.
func (s *Payments) DeletePendingTx(ctx context.Context, id wallet.ID, nonce uint64) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if i, found := s.find(id, nonce); found {
		s.pendingTxs[id] = slices.Delete(s.pendingTxs[id], i, i+1)
	}
	return nil
}

// put stores a pending transaction and its hash unless its nonce has one.
func (s *Payments) put(n wallet.PendingTx) bool {
	i, found := s.find(n.ID, n.Nonce)
	if found {
		return false
	}
	s.pendingTxs[n.ID] = slices.Insert(s.pendingTxs[n.ID], i, &pendingTx{PendingTx: n})
	s.hashes[n.Hash()] = n.Payment
	return true
}

// bump stores the newest attempt of n, and its hash, over the attempts before
// it, if those are what is stored.
func (s *Payments) bump(n wallet.PendingTx) bool {
	i, found := s.find(n.ID, n.Nonce)
	if !found {
		return false
	}
	there := &s.pendingTxs[n.ID][i].PendingTx
	if there.Payment != n.Payment || !slices.Equal(there.Hashes, n.Hashes[:len(n.Hashes)-1]) {
		return false
	}
	there.Hashes = append(slices.Clip(there.Hashes), n.Hash())
	there.Raw, there.Fees, there.At, there.Gas = n.Raw, n.Fees, n.At, n.Gas
	s.hashes[n.Hash()] = n.Payment
	return true
}

func (s *Payments) find(id wallet.ID, nonce uint64) (int, bool) {
	return slices.BinarySearchFunc(s.pendingTxs[id], nonce, func(n *pendingTx, nonce uint64) int {
		return cmp.Compare(n.Nonce, nonce)
	})
}
