package dispatch

import (
	"context"
	"errors"
	"sync"

	"remit/internal/chain"
	"remit/internal/payment"
	"remit/internal/store"
	"remit/internal/wallet"
)

// rounds bounds how often a payment may be found changed by others before the
// request gives up. Each round means progress by somebody.
const rounds = 8

// commit reservations, commits, releases and broadcasts a stored payment. It works on
// a context of its own: a client that hangs up must not leave a reservation behind.
// If it crashes after the reservation, check-receipts finishes the payment from what
// is stored; before, nothing was started.
func (d *Dispatcher) submit(ctx context.Context, p payment.Payment) (Result, error) {
	if d.short(ctx) {
		return Result{}, ErrUnavailable
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), budget)
	defer cancel()
	for range rounds {
		if p.State != payment.Prepared {
			return Result{Payment: p}, nil
		}
		w, err := d.Store.Reserve(ctx, d.needs(p))
		if err != nil {
			next, result, err := d.unreserved(ctx, p, w, err)
			if next == nil {
				return result, err
			}
			p = *next
			continue
		}
		d.pool.Saw(w)
		committed, err := d.commit(ctx, p, w.Reservations[p.ID].Nonce)
		if err != nil {
			return Result{}, unfinished(err)
		}
		if committed.State != payment.Prepared {
			d.deliver(ctx, committed, w)
			return Result{Payment: committed}, nil
		}
		p = committed
	}
	return Result{}, ErrInProgress
}

// short reports whether too little time is left to take a reservation.
func (d *Dispatcher) short(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ok && deadline.Sub(d.Now()) < reserve
}

// unfinished is the answer to a request that lost sight of its payment: it may
// hold a reservation, and then it will be made.
func unfinished(err error) error {
	if errors.Is(err, ErrKeyReused) {
		return err
	}
	return errors.Join(ErrInProgress, err)
}

// commit signs p at nonce and stores the bytes. It returns the payment as it is
// stored after that: committed by us or by somebody faster, or still prepared and
// reassigned, in which case the caller reserves again. If it crashes before the
// write, the reservation stays and check-receipts commits the same bytes.
func (d *Dispatcher) commit(ctx context.Context, p payment.Payment, nonce uint64) (payment.Payment, error) {
	signer, err := d.Keys.Signer(ctx, p.Wallet)
	if err != nil {
		return payment.Payment{}, err
	}
	signed, err := signer.Sign(p.Tx, nonce)
	if err != nil {
		return payment.Payment{}, err
	}
	committed, err := p.Commit(signed, d.Now())
	if err != nil {
		return payment.Payment{}, err
	}
	err = d.Store.Commit(ctx, committed)
	if err == nil {
		d.Log.InfoContext(ctx, "payment committed", "payment", p.ID, "wallet", p.Wallet, "nonce", nonce, "tx", signed.Hash)
		return committed, nil
	}
	if errors.Is(err, store.ErrNonceTaken) {
		// A run took the reservation for an orphan and filled its nonce.
		pendingTx, err := d.Store.PendingTx(ctx, walletOf(p), nonce)
		if err != nil {
			return payment.Payment{}, err
		}
		if err := d.Store.Release(ctx, p.ID, pendingTx); err != nil {
			return payment.Payment{}, err
		}
	}
	stored, err := d.Store.Payment(ctx, p.ID)
	if err != nil {
		return payment.Payment{}, err
	}
	if stored.Fingerprint != p.Fingerprint {
		return payment.Payment{}, ErrKeyReused // discarded, and the key used for another request since
	}
	return stored, nil
}

// deliver releases the reservation, broadcasts the stored bytes and, if nobody looks
// after the wallet, asks for a check-receipts run, all at once. The payment is
// committed: nothing that goes wrong here is the caller's concern, and all of
// it is done again by check-receipts.
func (d *Dispatcher) deliver(ctx context.Context, p payment.Payment, w wallet.Wallet) {
	pendingTx := store.PendingTxOf(p)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := d.Store.Release(ctx, p.ID, pendingTx); err != nil {
			d.Log.WarnContext(ctx, "release left to check-receipts", "payment", p.ID, "err", err)
		}
	})
	if !w.ClaimedUntil.After(d.Now()) {
		wg.Go(func() {
			if err := d.Hints.Hint(ctx); err != nil {
				d.Log.WarnContext(ctx, "hint lost", "payment", p.ID, "err", err)
			}
		})
	}
	d.broadcast(ctx, p, pendingTx)
	wg.Wait()
}

func (d *Dispatcher) broadcast(ctx context.Context, p payment.Payment, pendingTx wallet.PendingTx) {
	ctx, cancel := context.WithTimeout(ctx, broadcastBudget)
	defer cancel()
	if pendingTx.Raw == nil { // somebody faster signed it, and only the pending transaction has the bytes
		stored, err := d.Store.PendingTx(ctx, pendingTx.ID, pendingTx.Nonce)
		if err != nil {
			d.Log.WarnContext(ctx, "broadcast left to check-receipts", "payment", p.ID, "err", err)
			return
		}
		pendingTx = stored
	}
	reply := d.Nodes.Deliver(ctx, pendingTx.Raw, func(ctx context.Context) ([][]byte, error) {
		return predecessors(ctx, d.Store, pendingTx)
	})
	switch reply.Class {
	case chain.Accepted, chain.Known:
	case chain.Funds, chain.Wrong, chain.Replacement:
		d.Log.ErrorContext(ctx, "broadcast refused", "payment", p.ID, "class", reply.Class, "reply", reply.Detail)
	default:
		d.Log.WarnContext(ctx, "broadcast left to check-receipts", "payment", p.ID, "class", reply.Class, "reply", reply.Detail)
	}
}
