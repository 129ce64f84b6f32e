package dispatch

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// rounds bounds how often other processes may change a payment or its wallet before the request
// gives up. In each round one of them made progress.
const rounds = 8

// submit reserves a nonce for a stored payment, commits it, releases the reservation and broadcasts the bytes. It
// works on its own context: a client that hangs up must not leave a reservation behind. A crash before the
// reservation leaves a payment for which no money can move; a crash after it leaves a payment that check-receipts
// finishes from the tables. submit refunds the request's charge to daily limits unless the payment has a reservation
// or may have one. held reports that takeUp found p with a nonce: submit makes it at that nonce or returns
// ErrDuplicate, since this request has neither judged nor charged it.
func (d sending) submit(ctx context.Context, p payment.Payment, taken store.Charge, held bool) (payment.Payment, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), budget)
	defer cancel()
	asked := false // a reservation was given, or may have been
	defer func() {
		if !asked {
			d.refund(ctx, taken)
		}
	}()
	var s search
	var failed error // of the last commit that failed
	compared, revision := false, p.Revision
	for round := 0; round < rounds; round++ {
		if p.State != payment.Prepared {
			return p, nil
		}
		if held && p.Revision != revision { // moved, or begun anew
			return payment.Payment{}, ErrDuplicate
		}
		need := d.needOf(p)
		signer, w, err := d.reserve(ctx, p, need, held)
		asked = asked || !isRefusal(err) && !errors.Is(err, ErrInProgress)
		switch {
		case errors.Is(err, ErrExpired) && d.created && !asked:
			return d.refuse(ctx, p, err)
		case errors.Is(err, ErrExpired), held && isRefusal(err):
			// Another request may be making it, an earlier reservation is there, or the nonce is gone.
			return payment.Payment{}, ErrDuplicate
		case errors.Is(err, ErrInProgress):
			return payment.Payment{}, err
		case err == nil:
			var done bool
			if p, done, err = d.makeAt(ctx, signer, w, p, need, &failed); done || err != nil {
				return p, err
			}
		case errors.Is(err, wallet.ErrUnknown) && !compared: // its key was added after this process started
			compared = true
			err = d.compareAll(ctx)
		case !isRefusal(err):
			// If the payment holds the reservation, it will be made.
			d.Log.WarnContext(ctx, "reservation unknown", "payment", p.ID, "err", err)
			p, err = d.reread(ctx, p)
		case errors.Is(err, wallet.ErrCeiling) && d.raise(ctx, w):
			err = nil
		default:
			d.pool.Observe(w)
			s.refused(p.Wallet, err)
			round-- // the search bounds these rounds
			if p, err = d.reassign(ctx, p, &s); errors.Is(err, errNoWallet) {
				return d.giveUp(ctx, p, s.refusals)
			}
		}
		if err != nil {
			return payment.Payment{}, unfinished(err)
		}
	}
	return payment.Payment{}, errors.Join(ErrInProgress, failed)
}

// makeAt commits p at the nonce that it holds in w, and broadcasts it. It returns false if another process moved p.
func (d sending) makeAt(ctx context.Context, signer wallet.Signer, w wallet.Wallet, p payment.Payment, need wallet.Need,
	failed *error) (payment.Payment, bool, error) {
	d.pool.Observe(w)
	if w.Suspect() { // its payments may be missing from restored tables
		return payment.Payment{}, false, ErrWaiting
	}
	d.phases.end(phaseReserve)
	nonce := w.Reservations[p.ID].Nonce
	p.WalletOf = w.Merchant
	p, err := d.commit(ctx, signer, p, nonce, failed)
	if err != nil {
		return payment.Payment{}, false, unfinished(errors.Join(err, *failed))
	}
	d.phases.end(phaseCommit)
	if p.State == payment.Prepared {
		return p, false, nil
	}
	if walletOf(p) != w.ID || p.Nonce != nonce {
		d.forgo(ctx, p, need, nonce)
	}
	d.deliver(ctx, p, w)
	d.phases.end(phaseBroadcast)
	d.Log.InfoContext(ctx, "payment committed", "payment", p.ID, "wallet", p.Wallet, "nonce", p.Nonce, "tx", p.TxHash, d.phases.attr())
	return p, true, nil
}

// reserve reserves a nonce of need's wallet for p, if the wallet's key can sign now. It returns the errors of
// Store.Reserve. If the key is out of reach, it returns errNoKey, a refusal, or ErrInProgress if p holds a nonce or
// may: check-receipts then makes the payment. Once the request has expired it reserves nothing. It then returns the
// wallet if p still holds the nonce that takeUp found, ErrDuplicate if it does not, and ErrExpired for any other
// payment.
func (d sending) reserve(ctx context.Context, p payment.Payment, need wallet.Need, held bool) (wallet.Signer, wallet.Wallet, error) {
	signer, err := d.ready(ctx, p.Wallet)
	switch {
	case err == nil && d.expired() && !held:
		return nil, wallet.Wallet{}, ErrExpired
	case err == nil && d.expired():
		w, err := d.Store.Wallet(ctx, need.Wallet)
		if _, holds := w.Holds(p.ID, p.Revision); err != nil || !holds {
			return nil, wallet.Wallet{}, errors.Join(ErrDuplicate, err)
		}
		return signer, w, nil
	case err == nil:
		w, err := d.Store.Reserve(ctx, need)
		if errors.Is(err, wallet.ErrPaused) {
			err = fmt.Errorf("%w: %s", err, w.Paused)
			if w.RolledBack() {
				err = errors.Join(ErrRolledBack, err)
			}
		}
		return signer, w, err
	}
	if held, unknown := d.reserved(ctx, p); held || unknown != nil {
		return nil, wallet.Wallet{}, errors.Join(ErrWaiting, err, unknown)
	}
	return nil, wallet.Wallet{}, d.keyless(ctx, need.Wallet, err)
}

var errShort = errors.New("too little time is left")

// short reports whether too little time is left to reserve a nonce.
func (d sending) short(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ok && deadline.Sub(d.Now()) < reserve
}

// unfinished answers a request that no longer knows its payment's state: the payment may hold a
// reservation, and will then be made.
func unfinished(err error) error {
	if errors.Is(err, ErrKeyReused) {
		return err
	}
	return errors.Join(ErrInProgress, err)
}

// reread returns the payment as stored. It returns ErrKeyReused if the key is used up or was used for another request
// since, and ErrDuplicate for the payment of a proposal whose release was refused since.
func (d sending) reread(ctx context.Context, p payment.Payment) (payment.Payment, error) {
	stored, err := d.Store.Payment(ctx, p.ID)
	switch {
	case err == nil && (stored.Fingerprint != p.Fingerprint || stored.State.UsedUp()):
		return payment.Payment{}, ErrKeyReused
	case err == nil && stored.State == payment.Proposed:
		return payment.Payment{}, ErrDuplicate
	}
	return stored, err
}

// commit signs p at nonce and stores the bytes. It returns the payment as stored afterwards: committed by this request
// or a faster process, or still prepared and assigned to another wallet; the caller then reserves again. A crash before
// the write leaves the reservation, and check-receipts commits the payment. It logs any failure but another process's
// progress, and sets failed.
func (d sending) commit(ctx context.Context, signer wallet.Signer, p payment.Payment, nonce uint64, failed *error) (payment.Payment,
	error) {
	committed, err := store.Commit(ctx, d.Store, signer, p, nonce, d.Now())
	if err == nil {
		return committed, nil
	}
	if !errors.Is(err, store.ErrChanged) && !errors.Is(err, store.ErrNonceTaken) {
		d.Log.ErrorContext(ctx, "commit failed", "payment", p.ID, "wallet", p.Wallet, "nonce", nonce, "err", err)
		*failed = ErrCommit
	}
	if committed.ID == "" {
		return payment.Payment{}, err
	}
	if errors.Is(err, store.ErrNonceTaken) {
		// A run took the reservation for an orphan and used up its nonce.
		tx, err := d.Store.PendingTx(ctx, walletOf(p), nonce)
		if err == nil && tx.Payment == p.ID {
			err = ErrWaiting // a torn copy has p as prepared: recovery decides
		}
		if err != nil {
			return payment.Payment{}, err
		}
		if err := d.Store.Release(ctx, p.ID, tx); err != nil {
			return payment.Payment{}, err
		}
	}
	return d.reread(ctx, p)
}

// forgo ends need's reservation of nonce for p, which a faster process has committed at another nonce. It gives the
// nonce back if it is the wallet's last, and else uses it up: payments at later nonces wait for it. A crash in between
// leaves a reservation or a pending transaction, which check-receipts finishes.
func (d sending) forgo(ctx context.Context, p payment.Payment, need wallet.Need, nonce uint64) {
	err := store.ErrChanged
	if n := store.NeedOf(p, need.At); n.Wallet == need.Wallet && n.Amount == need.Amount && n.Gas == need.Gas {
		err = d.Store.Return(ctx, need, nonce)
	}
	if errors.Is(err, store.ErrChanged) {
		err = d.useUp(ctx, p, need.Wallet, nonce)
	}
	if err != nil {
		d.Log.WarnContext(ctx, "nonce left to another process", "payment", p.ID, "nonce", nonce, "err", err)
	}
}

// useUp stores and sends a no-op at a nonce that is reserved for p.
func (d sending) useUp(ctx context.Context, p payment.Payment, id wallet.ID, nonce uint64) error {
	if d.refused != nil {
		return d.refused
	}
	if err := d.Store.Orphan(ctx, id, p.ID, nonce); err != nil {
		return err
	}
	signer, err := d.ready(ctx, id.Address)
	if err != nil {
		return err
	}
	noop, err := store.UseUp(ctx, d.Store, signer, d.Nodes, id, nonce, d.FeeLimit, d.GasUnit, d.Now())
	if err != nil {
		return err
	}
	d.broadcast(ctx, p, noop)
	return d.Store.Release(ctx, p.ID, noop)
}

// deliver releases the reservation, broadcasts the stored bytes and, if no run claims the wallet,
// requests a check-receipts run, all at once. The payment is committed: check-receipts repeats each
// failed step, so callers get no error.
func (d sending) deliver(ctx context.Context, p payment.Payment, w wallet.Wallet) {
	tx := store.PendingTxOf(p)
	var wg sync.WaitGroup
	wg.Go(func() {
		d.warn(ctx, d.Store.Release(ctx, p.ID, tx), "release left to check-receipts", "payment", p.ID)
	})
	if !w.ClaimedUntil.After(d.Now()) {
		wg.Go(func() { d.warn(ctx, d.Hints.Hint(ctx), "hint lost", "payment", p.ID) })
	}
	d.broadcast(ctx, p, tx)
	wg.Wait()
}

func (d sending) broadcast(ctx context.Context, p payment.Payment, tx wallet.PendingTx) {
	ctx, cancel := context.WithTimeout(ctx, broadcastBudget)
	defer cancel()
	if tx.Raw == nil { // a faster process signed it: only the pending transaction has the bytes
		var err error
		if tx, err = d.Store.PendingTx(ctx, tx.ID, tx.Nonce); err != nil {
			d.Log.WarnContext(ctx, "broadcast left to check-receipts", "payment", p.ID, "err", err)
			return
		}
	}
	reply := d.Nodes.Deliver(ctx, tx.Raw, func(ctx context.Context) ([][]byte, error) { return d.predecessors(ctx, tx) })
	switch class, words := reply.Class, reply.Detail; class {
	case chain.Accepted, chain.Known:
	case chain.Funds, chain.Wrong, chain.Replacement:
		d.Log.ErrorContext(ctx, "broadcast refused", "payment", p.ID, "class", class, "reply", words)
	default:
		d.Log.WarnContext(ctx, "broadcast left to check-receipts", "payment", p.ID, "class", class, "reply", words)
	}
}

// predecessors returns the stored bytes of all lower nonces of the wallet, in nonce order. A node
// that reports a gap may lack any of them.
func (d sending) predecessors(ctx context.Context, tx wallet.PendingTx) ([][]byte, error) {
	txs, _, err := d.Store.PendingTxs(ctx, tx.ID, 0)
	var raws [][]byte
	for _, s := range txs {
		if s.Nonce < tx.Nonce {
			raws = append(raws, s.Raw)
		}
	}
	return raws, err
}
