package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// startupCheck passes once in a process's life, before its first reservation. It compares every wallet with the chain.
// It refuses all payments while the chain is ahead of any wallet: another program uses a key, or the tables were
// restored and a payment could be made again. The next call skips wallets that were compared. Two concurrent requests
// may both do it; neither waits for the other. A crash leaves no reservation.
func (d sending) startupCheck(ctx context.Context) error {
	if d.checked.Load() {
		return nil
	}
	err := d.compareAll(ctx)
	if err == nil {
		err = d.othersCleared(ctx)
	}
	if err != nil {
		return errors.Join(ErrUnavailable, err)
	}
	d.checked.Store(true)
	return nil
}

// compareAll compares every wallet that has a record with the chain, even if the wallet is draining
// or its key is gone: its payment may be missing from the tables. It leaves out retired wallets,
// whose keys may be public. It skips the comparison if a check-receipts run has just made it. Then
// it opens the wallets that have no record. If no wallet has a record, the tables may have lost
// them all: it then opens all or none. After a crash in between, the next request compares again.
func (d sending) compareAll(ctx context.Context) error {
	var compared store.Comparison
	var mark sync.WaitGroup
	mark.Go(func() { compared, _ = d.Store.Compared(ctx, d.Coin()) }) // zero on error: compare all
	wallets, err := d.registry(ctx, justRead)
	mark.Wait()
	if err != nil {
		return err
	}
	known := wallets.Working(true)
	if age := d.Now().Sub(compared.At); age < -store.Skew || age >= store.ComparedFor {
		if err := abreast(known, func(r wallet.Registration) error { return d.compare(ctx, r) }); err != nil {
			return err
		}
	}
	if unopened := wallets.Working(false); len(unopened) > 0 {
		none := !slices.ContainsFunc(known, func(r wallet.Registration) bool { return r.State != wallet.Damaged })
		return d.open(ctx, unopened, none)
	}
	return nil
}

// abreast calls do for every wallet, some at once, so that a process with many wallets starts soon. It returns an error
// once all calls have ended.
func abreast(wallets wallet.Registry, do func(wallet.Registration) error) error {
	var group errgroup.Group
	group.SetLimit(16)
	for _, r := range wallets {
		group.Go(func() error { return do(r) })
	}
	return group.Wait()
}

// compare compares a wallet with the chain, once per process, and gives its record to the pool.
func (d sending) compare(ctx context.Context, r wallet.Registration) error {
	if _, done := d.compared.Load(r.ID); done {
		return nil
	}
	w, err := d.record(ctx, r)
	if err != nil {
		return err
	}
	d.pool.Observe(w)
	views, err := d.Nodes.Latest(ctx, r.Address, d.Token.Contract)
	if err == nil {
		_, err = d.recheck(ctx, r, views, w)
	}
	if err == nil && d.Nodes.Alone(len(views)) {
		err = errAlone
	}
	if err == nil {
		d.compared.Store(r.ID, nil)
	}
	return err
}

// recheck returns the wallet's record; w is the record from before the nodes answered, and others may have reserved
// since. It returns ErrBehind if more transactions are mined than the record has given out nonces.
func (d sending) recheck(ctx context.Context, r wallet.Registration, views chain.Views,
	w wallet.Wallet) (wallet.Wallet, error) {
	count, _ := d.Nodes.Ahead(ctx, d.Log, views, r.Address, w.NextNonce)
	if count == 0 {
		return w, nil
	}
	w, err := d.record(ctx, r)
	if err == nil && count > w.NextNonce {
		err = fmt.Errorf("%w: %d transactions of wallet %s are mined, next nonce is %d", wallet.ErrBehind, count,
			r.Address, w.NextNonce)
	}
	return w, err
}

// record returns a wallet's record. A wallet that was never opened has given out no nonce by these tables; one whose
// registration is damaged may be such a wallet.
func (d sending) record(ctx context.Context, r wallet.Registration) (wallet.Wallet, error) {
	w, err := d.Store.Wallet(ctx, r.ID)
	if (!r.Opened || r.State == wallet.Damaged) && errors.Is(err, wallet.ErrUnknown) {
		return wallet.Wallet{ID: r.ID}, nil
	}
	return w, err
}

// errAlone reports a wallet that cannot be compared or opened by the word of one node.
var errAlone = fmt.Errorf("%w: one node of three alone does not tell what a wallet has paid; add or replace nodes",
	chain.ErrUnavailable)

// open creates the records of new wallets. If one of them has paid before, or may have, it returns an error, and opens
// none: the tables may have lost its record and its payments. A wallet that waits for another program's transaction, or
// for more nodes, does not stop the others: without a record it gives out no nonce, and it is in cooldown. If all is
// true, it is an error too.
func (d sending) open(ctx context.Context, wallets wallet.Registry, all bool) error {
	suspicion, unknown := d.suspicion(ctx)
	var mu sync.Mutex
	opening := map[wallet.ID]wallet.Wallet{}
	err := abreast(wallets, func(r wallet.Registration) error {
		w, err := d.firstUse(ctx, r)
		passing := err == nil || errors.Is(err, wallet.ErrForeign) || errors.Is(err, errAlone)
		if err = cmp.Or(err, unknown); err == nil {
			mu.Lock()
			defer mu.Unlock()
			opening[r.ID] = w
			return nil
		}
		d.leaveOut(ctx, r, err)
		if passing && !all {
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, w := range opening { // in a torn copy, one has a record
		if w.Suspect() {
			suspicion, _ = w.Reasons()
		}
	}
	wallets = slices.DeleteFunc(slices.Clone(wallets), func(r wallet.Registration) bool { _, known := opening[r.ID]; return !known })
	_ = abreast(wallets, func(r wallet.Registration) error {
		w := opening[r.ID]
		w.Paused, w.Merchant = cmp.Or(w.Paused, suspicion), r.Merchant
		if err := d.Store.Open(ctx, w, d.Token.Contract); err != nil {
			d.leaveOut(ctx, r, err)
			return nil
		}
		d.pool.Observe(w)
		return nil
	})
	return nil
}

// leaveOut starts the cooldown of a wallet that is not opened.
func (d sending) leaveOut(ctx context.Context, r wallet.Registration, err error) {
	d.pool.CoolDown(r.ID, "not opened", d.Now())
	d.Log.ErrorContext(ctx, "wallet left out", "wallet", r.ID.Address, "err", err)
}

// suspicion returns the reason to pause new wallets: another wallet's chain is ahead of the tables,
// or behind. Empty if none is.
func (d sending) suspicion(ctx context.Context) (reason string, err error) {
	wallets, err := d.Store.Wallets(ctx, d.Coin())
	if err != nil {
		return "", err
	}
	var mu sync.Mutex
	err = abreast(wallets.Working(true), func(r wallet.Registration) error {
		w, err := d.record(ctx, r)
		mu.Lock()
		defer mu.Unlock()
		if w.Suspect() || w.RolledBack() && reason == "" {
			suspicion, other := w.Reasons()
			reason = cmp.Or(suspicion, other)
		}
		return err
	})
	return reason, err
}

// firstUse returns a new wallet's record, or the stored one if another process was first. It is ErrBehind if the wallet
// has paid before: another program did, or the tables have lost the payments.
func (d sending) firstUse(ctx context.Context, r wallet.Registration) (wallet.Wallet, error) {
	views, err := d.Nodes.Latest(ctx, r.Address, d.Token.Contract)
	if err != nil {
		return wallet.Wallet{}, err
	}
	w, err := d.recheck(ctx, r, views, wallet.Wallet{ID: r.ID})
	settled := uint64(0)
	switch {
	case errors.Is(err, wallet.ErrBehind) && d.Ephemeral:
		if views, err = d.Nodes.Views(ctx, r.Address, d.Token.Contract, d.ConfirmationRule); err == nil {
			settled, err = views.FinalCount(ctx, r.Address)
		}
	case err == nil && w.NextNonce > 0:
		return w, nil
	case err == nil && d.Nodes.Alone(len(views)):
		err = errAlone
	}
	if err != nil {
		return wallet.Wallet{}, err
	}
	return wallet.FirstUse(r.ID, d.Nodes.Account(views), settled, d.Window, d.GasUnit)
}
