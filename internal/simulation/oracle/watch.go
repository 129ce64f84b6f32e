package oracle

import (
	"context"

	"remit/internal/memory"
	"remit/internal/payment"
	"remit/internal/store"
	"remit/internal/wallet"
)

// Watched returns the tables as the engines are to reach them: after every
// write that moves a nonce, the Oracle checks that each nonce has an owner.
func (o *Oracle) Watched() store.Store { return watched{o.Store, o} }

type watched struct {
	*memory.Payments
	oracle *Oracle
}

// Reserve implements store.Nonces.
func (s watched) Reserve(ctx context.Context, n wallet.Need) (wallet.Wallet, error) {
	defer s.oracle.owners(n.Wallet)
	return s.Payments.Reserve(ctx, n)
}

// Release implements store.Nonces.
func (s watched) Release(ctx context.Context, id payment.ID, tx wallet.PendingTx) error {
	defer s.oracle.owners(tx.ID)
	return s.Payments.Release(ctx, id, tx)
}

// RaiseCeiling implements store.Nonces.
func (s watched) RaiseCeiling(ctx context.Context, id wallet.ID, ceiling uint64) error {
	defer s.oracle.owners(id)
	return s.Payments.RaiseCeiling(ctx, id, ceiling)
}

// Commit implements store.PendingTxs.
func (s watched) Commit(ctx context.Context, p payment.Payment) error {
	defer s.oracle.owners(wallet.ID{ChainID: p.Tx.ChainID, Address: p.Wallet})
	return s.Payments.Commit(ctx, p)
}

// PutNoop implements store.PendingTxs.
func (s watched) PutNoop(ctx context.Context, tx wallet.PendingTx) error {
	defer s.oracle.owners(tx.ID)
	return s.noop(tx, s.Payments.PutNoop(ctx, tx))
}

// BumpNoop implements store.PendingTxs.
func (s watched) BumpNoop(ctx context.Context, tx wallet.PendingTx) error {
	return s.noop(tx, s.Payments.BumpNoop(ctx, tx))
}

// noop remembers a no-op that was stored, since its pending transaction is
// deleted later.
func (s watched) noop(tx wallet.PendingTx, err error) error {
	if err == nil {
		s.oracle.noops[tx.Hash()] = true
	}
	return err
}

// DeletePendingTx implements store.PendingTxs.
func (s watched) DeletePendingTx(ctx context.Context, id wallet.ID, nonce uint64) error {
	s.oracle.deleting(id, nonce)
	defer s.oracle.owners(id)
	return s.Payments.DeletePendingTx(ctx, id, nonce)
}
