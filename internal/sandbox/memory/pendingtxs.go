package memory

import (
	"cmp"
	"context"
	"slices"

	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// A pendingTx is a stored pending transaction. Its Hashes are replaced, never changed in place.
type pendingTx struct {
	wallet.PendingTx
	spoiled bool
}

func (s *Payments) Commit(ctx context.Context, p payment.Payment) error {
	return s.locked(ctx, func() error {
		if !s.prepared(p) {
			return store.ErrChanged
		}
		if err := s.put(store.PendingTxOf(p)); err != nil {
			return err
		}
		own := &s.payments[p.ID].p
		own.State, own.Nonce, own.Attempts, own.TxHash = p.State, p.Nonce, bare(p.Attempts), p.TxHash
		own.Version, own.UpdatedAt, own.WalletOf = p.Version, p.UpdatedAt, p.WalletOf
		return nil
	}, store.FitsPayment(p))
}

func (s *Payments) AddAttempt(ctx context.Context, p payment.Payment) error {
	return s.locked(ctx, func() error {
		there, newer := s.payments[p.ID], store.PendingTxOf(p)
		earlier := newer.Hashes[:len(newer.Hashes)-1]
		if there == nil || there.p.State != payment.Committed || !slices.Equal(there.p.Hashes(), earlier) {
			return store.ErrChanged
		}
		if err := s.bump(newer); err != nil {
			return err
		}
		there.p.Attempts = bare(append(slices.Clip(there.p.Attempts), p.LastAttempt()))
		return nil
	}, store.FitsPayment(p))
}

// bare returns attempts without the bytes, which the pending transaction has.
func bare(attempts []payment.Attempt) []payment.Attempt {
	attempts = slices.Clone(attempts)
	for i := range attempts {
		attempts[i].Raw = nil
	}
	return attempts
}

func (s *Payments) PutNoop(ctx context.Context, tx wallet.PendingTx) error {
	return s.locked(ctx, func() error { return s.put(tx) }, store.FitsTx(tx))
}

func (s *Payments) BumpNoop(ctx context.Context, tx wallet.PendingTx) error {
	return s.locked(ctx, func() error { return s.bump(tx) }, store.FitsTx(tx))
}

func (s *Payments) PendingTxs(ctx context.Context, id wallet.ID, from uint64) (txs []wallet.PendingTx, unreadable int, err error) {
	err = s.locked(ctx, func() error {
		i, _ := s.find(id, from)
		txs = make([]wallet.PendingTx, 0, len(s.txs[id])-i)
		for _, tx := range s.txs[id][i:] {
			if tx.spoiled {
				unreadable++
				continue
			}
			txs = append(txs, tx.PendingTx)
		}
		return nil
	})
	return txs, unreadable, err
}

func (s *Payments) PendingTx(ctx context.Context, id wallet.ID, nonce uint64) (wallet.PendingTx, error) {
	return answer(ctx, s, func() (none wallet.PendingTx, err error) {
		switch i, found := s.find(id, nonce); {
		case !found:
			return none, wallet.ErrUnknown
		case s.txs[id][i].spoiled:
			return none, store.ErrUnreadable
		default:
			return s.txs[id][i].PendingTx, nil
		}
	})
}

func (s *Payments) DeletePendingTx(ctx context.Context, id wallet.ID, nonce uint64) error {
	return s.locked(ctx, func() error {
		if i, found := s.find(id, nonce); found {
			s.txs[id] = slices.Delete(s.txs[id], i, i+1)
		}
		return nil
	})
}

// put stores a pending transaction and its hash if the nonce has none.
func (s *Payments) put(tx wallet.PendingTx) error {
	i, found := s.find(tx.ID, tx.Nonce)
	if found {
		return store.ErrNonceTaken
	}
	s.txs[tx.ID] = slices.Insert(s.txs[tx.ID], i, &pendingTx{PendingTx: tx})
	s.hashes[tx.Hash()] = tx.Payment
	return nil
}

// bump stores the newest attempt of tx and its hash if the stored attempts are exactly those before it, or it too.
func (s *Payments) bump(tx wallet.PendingTx) error {
	i, found := s.find(tx.ID, tx.Nonce)
	if !found {
		return store.ErrChanged
	}
	there, earlier := &s.txs[tx.ID][i].PendingTx, tx.Hashes[:len(tx.Hashes)-1]
	if there.Payment != tx.Payment || !slices.Equal(there.Hashes, earlier) && !slices.Equal(there.Hashes, tx.Hashes) {
		return store.ErrChanged
	}
	there.Hashes = append(slices.Clip(earlier), tx.Hash())
	there.Raw, there.Fees, there.At, there.Amount, there.Gas = tx.Raw, tx.Fees, tx.At, tx.Amount, tx.Gas
	there.HasNoop = tx.HasNoop
	s.hashes[tx.Hash()] = tx.Payment
	return nil
}

func (s *Payments) find(id wallet.ID, nonce uint64) (int, bool) {
	return slices.BinarySearchFunc(s.txs[id], nonce, func(tx *pendingTx, nonce uint64) int {
		return cmp.Compare(tx.Nonce, nonce)
	})
}
