package dispatch

import (
	"context"
	"errors"
	"sync"

	"remit/internal/chain"
	"remit/internal/payment"
	"remit/internal/wallet"
)

// rounds bounds how often a payment may be found changed by others before the
// request gives up. Each round means progress by somebody.
const rounds = 8

// commit leases, seals, releases and broadcasts a stored payment. It works on
// a context of its own: a client that hangs up must not leave a lease behind.
// If it crashes after the lease, check-receipts finishes the payment from what
// is stored; before, nothing was started.
func (d *Dispatcher) commit(ctx context.Context, p payment.Payment) (Result, error) {
	if d.short(ctx) {
		return Result{}, ErrUnavailable
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), budget)
	defer cancel()
	for range rounds {
		if p.State != payment.Unsealed {
			return Result{Payment: p}, nil
		}
		w, err := d.Wallets.Lease(ctx, d.needs(p))
		if err != nil {
			next, result, err := d.unleased(ctx, p, w, err)
			if next == nil {
				return result, err
			}
			p = *next
			continue
		}
		d.pool.Saw(w)
		sealed, err := d.seal(ctx, p, w.Leases[p.ID].Nonce)
		if err != nil {
			return Result{}, unfinished(err)
		}
		if sealed.State != payment.Unsealed {
			d.deliver(ctx, sealed, w)
			return Result{Payment: sealed}, nil
		}
		p = sealed
	}
	return Result{}, ErrInProgress
}

// short reports whether too little time is left to take a lease.
func (d *Dispatcher) short(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ok && deadline.Sub(d.Now()) < reserve
}

// unfinished is the answer to a request that lost sight of its payment: it may
// hold a lease, and then it will be made.
func unfinished(err error) error {
	if errors.Is(err, ErrKeyReused) {
		return err
	}
	return errors.Join(ErrInProgress, err)
}

// seal signs p at nonce and stores the bytes. It returns the payment as it is
// stored after that: sealed by us or by somebody faster, or still unsealed and
// pinned anew, in which case the caller leases again. If it crashes before the
// write, the lease stays and check-receipts seals the same bytes.
func (d *Dispatcher) seal(ctx context.Context, p payment.Payment, nonce uint64) (payment.Payment, error) {
	signer, err := d.Keys.Signer(ctx, p.Wallet)
	if err != nil {
		return payment.Payment{}, err
	}
	signed, err := signer.Sign(p.Tx, nonce)
	if err != nil {
		return payment.Payment{}, err
	}
	sealed, err := p.Seal(signed, d.Now())
	if err != nil {
		return payment.Payment{}, err
	}
	err = d.Wallets.Seal(ctx, sealed)
	if err == nil {
		d.Log.InfoContext(ctx, "payment sealed", "payment", p.ID, "wallet", p.Wallet, "nonce", nonce, "tx", signed.Hash)
		return sealed, nil
	}
	if errors.Is(err, wallet.ErrSlotTaken) {
		// A run took the lease for an orphan and filled its nonce.
		slot, err := d.Wallets.Slot(ctx, walletOf(p), nonce)
		if err != nil {
			return payment.Payment{}, err
		}
		if err := d.Wallets.Release(ctx, p.ID, slot); err != nil {
			return payment.Payment{}, err
		}
	}
	stored, err := d.Payments.Payment(ctx, p.ID)
	if err != nil {
		return payment.Payment{}, err
	}
	if stored.Fingerprint != p.Fingerprint {
		return payment.Payment{}, ErrKeyReused // withdrawn, and the key used for another request since
	}
	return stored, nil
}

// deliver releases the lease, broadcasts the stored bytes and, if nobody looks
// after the wallet, asks for a check-receipts run, all at once. The payment is
// committed: nothing that goes wrong here is the caller's concern, and all of
// it is done again by check-receipts.
func (d *Dispatcher) deliver(ctx context.Context, p payment.Payment, w wallet.Wallet) {
	slot := wallet.SlotOf(p)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := d.Wallets.Release(ctx, p.ID, slot); err != nil {
			d.Log.WarnContext(ctx, "release left to check-receipts", "payment", p.ID, "err", err)
		}
	})
	if !w.Attended.After(d.Now()) {
		wg.Go(func() {
			if err := d.Hints.Hint(ctx); err != nil {
				d.Log.WarnContext(ctx, "hint lost", "payment", p.ID, "err", err)
			}
		})
	}
	d.broadcast(ctx, p, slot)
	wg.Wait()
}

func (d *Dispatcher) broadcast(ctx context.Context, p payment.Payment, slot wallet.Slot) {
	ctx, cancel := context.WithTimeout(ctx, broadcastBudget)
	defer cancel()
	if slot.Raw == nil { // somebody faster signed it, and only the slot has the bytes
		stored, err := d.Wallets.Slot(ctx, slot.ID, slot.Nonce)
		if err != nil {
			d.Log.WarnContext(ctx, "broadcast left to check-receipts", "payment", p.ID, "err", err)
			return
		}
		slot = stored
	}
	reply := d.Nodes.Deliver(ctx, slot.Raw, func(ctx context.Context) ([][]byte, error) {
		return wallet.Predecessors(ctx, d.Wallets, slot)
	})
	switch reply.Class {
	case chain.Accepted, chain.Known:
	case chain.Funds, chain.Wrong, chain.Replacement:
		d.Log.ErrorContext(ctx, "broadcast refused", "payment", p.ID, "class", reply.Class, "reply", reply.Detail)
	default:
		d.Log.WarnContext(ctx, "broadcast left to check-receipts", "payment", p.ID, "class", reply.Class, "reply", reply.Detail)
	}
}
