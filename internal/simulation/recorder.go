package simulation

import (
	"context"

	"remit/internal/memory"
	"remit/internal/payment"
	"remit/internal/wallet"
)

// A recorder is the store itself, watched by the judge: after every write that
// moves a nonce it is asked whether all of them still have an owner.
type recorder struct {
	*memory.Payments
	judge *judge
}

func (r recorder) Reserve(ctx context.Context, q wallet.Need) (wallet.Wallet, error) {
	w, err := r.Payments.Reserve(ctx, q)
	r.judge.owners(q.Wallet)
	return w, err
}

func (r recorder) Release(ctx context.Context, id payment.ID, s wallet.PendingTx) error {
	err := r.Payments.Release(ctx, id, s)
	r.judge.owners(s.ID)
	return err
}

func (r recorder) Commit(ctx context.Context, p payment.Payment) error {
	err := r.Payments.Commit(ctx, p)
	r.judge.owners(walletID(p.Wallet))
	return err
}

func (r recorder) PutNoop(ctx context.Context, s wallet.PendingTx) error {
	err := r.Payments.PutNoop(ctx, s)
	if err == nil {
		r.judge.noop(s)
	}
	r.judge.owners(s.ID)
	return err
}

func (r recorder) BumpNoop(ctx context.Context, s wallet.PendingTx) error {
	err := r.Payments.BumpNoop(ctx, s)
	if err == nil {
		r.judge.noop(s)
	}
	return err
}

func (r recorder) DeletePendingTx(ctx context.Context, id wallet.ID, nonce uint64) error {
	r.judge.deleting(id, nonce)
	err := r.Payments.DeletePendingTx(ctx, id, nonce)
	r.judge.owners(id)
	return err
}

func (r recorder) RaiseCeiling(ctx context.Context, id wallet.ID, ceiling uint64) error {
	err := r.Payments.RaiseCeiling(ctx, id, ceiling)
	r.judge.owners(id)
	return err
}
