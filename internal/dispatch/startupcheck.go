package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"remit/internal/wallet"
)

const (
	// comparedFor is how long a process believes a run of check-receipts that has
	// compared every wallet: the minute until the next run, and half a minute for
	// that run itself.
	comparedFor = 90 * time.Second
	// skew is how far another host's clock may be ahead.
	skew = 5 * time.Second
)

// startupCheck compares every wallet with the chain once in a process's life, before
// its first reservation. It refuses to pay at all while the chain is ahead of any:
// then another program uses a key, or the tables were restored from the past and a
// payment made since could be made again. It keeps what it has compared, so that the
// next call asks only for the rest. Two requests that come at once may both do it;
// neither waits for the other.
func (d sending) startupCheck(ctx context.Context) error {
	if d.checked.Load() {
		return nil
	}
	if err := d.look(ctx); err != nil {
		return errors.Join(ErrUnavailable, err)
	}
	d.checked.Store(true)
	return nil
}

// look compares every wallet that has a record, also one that is draining or whose
// key is gone: a payment that the tables have forgotten may be its own. It believes
// the run of check-receipts that has just done so. Then it opens the wallets that
// have no record. If it crashes in between, the next request looks again.
func (d sending) look(ctx context.Context) error {
	held, err := d.Keys.All(ctx)
	if err != nil {
		return err
	}
	var at time.Time
	var mark sync.WaitGroup
	mark.Go(func() { at, _ = d.Store.Compared(ctx, d.ChainID) }) // unknown is zero: none is believed
	ids, err := d.Store.Wallets(ctx, d.ChainID)
	mark.Wait()
	if err != nil {
		return err
	}
	if age := d.Now().Sub(at); age < -skew || age >= comparedFor {
		if err := abreast(ids, func(id wallet.ID) error { return d.compare(ctx, id) }); err != nil {
			return err
		}
	}
	var unopened []wallet.ID
	for _, a := range held {
		if id := (wallet.ID{ChainID: d.ChainID, Address: a}); !slices.Contains(ids, id) {
			unopened = append(unopened, id)
		}
	}
	if len(unopened) > 0 {
		d.open(ctx, unopened...)
	}
	return nil
}

// abreast calls do for every wallet, some at once, and returns the first error once
// all are done: a process with many wallets must not ask for one after the other
// before its first payment.
func abreast(ids []wallet.ID, do func(wallet.ID) error) error {
	var group errgroup.Group
	group.SetLimit(16)
	for _, id := range ids {
		group.Go(func() error { return do(id) })
	}
	return group.Wait()
}

// compare compares a wallet with the chain, unless this process has. What it learns
// of it, the pool knows from then on.
func (d sending) compare(ctx context.Context, id wallet.ID) error {
	if _, done := d.compared.Load(id); done {
		return nil
	}
	w, err := d.Store.Wallet(ctx, id)
	if err != nil {
		return err
	}
	d.pool.Saw(w)
	views, err := d.Nodes.Latest(ctx, id.Address, d.Token.Contract)
	if err != nil {
		return err
	}
	for _, view := range views {
		if view.Mined <= w.NextNonce {
			continue
		}
		fresh, err := d.Store.Wallet(ctx, id) // others reserve between our read and the node's answer
		if err != nil {
			return err
		}
		if view.Mined > fresh.NextNonce {
			return fmt.Errorf("%w: %s says %d of wallet %s, next nonce is %d",
				wallet.ErrBehind, view.Node, view.Mined, id.Address, fresh.NextNonce)
		}
	}
	d.compared.Store(id, nil)
	return nil
}

// open makes the records of wallets seen for the first time, and reports whether it
// has made them all. One that it cannot open, since another program uses its key or
// a node does not answer, stops no other: it has no record to reserve from, and is
// tried last for a minute.
func (d sending) open(ctx context.Context, ids ...wallet.ID) bool {
	suspicion, unknown := d.suspicion(ctx)
	return abreast(ids, func(id wallet.ID) error {
		err := unknown
		if err == nil {
			err = d.firstUse(ctx, id, suspicion)
		}
		if err != nil {
			d.pool.Rest(id, d.Now())
			d.Log.ErrorContext(ctx, "wallet left out", "wallet", id.Address, "err", err)
		}
		return err
	}) == nil
}

// suspicion returns the reason of a wallet's pause for an ErrBehind, empty when no
// wallet is paused for one.
func (d sending) suspicion(ctx context.Context) (reason string, err error) {
	ids, err := d.Store.Wallets(ctx, d.ChainID)
	if err != nil {
		return "", err
	}
	var mu sync.Mutex
	err = abreast(ids, func(id wallet.ID) error {
		w, err := d.Store.Wallet(ctx, id)
		if strings.HasPrefix(w.Paused, wallet.Suspicion) {
			mu.Lock()
			defer mu.Unlock()
			reason = w.Paused
		}
		return err
	})
	return reason, err
}

// firstUse makes the record of a wallet seen for the first time, paused for the
// suspicion that others are paused for.
func (d sending) firstUse(ctx context.Context, id wallet.ID, suspicion string) error {
	views, err := d.Nodes.Latest(ctx, id.Address, d.Token.Contract)
	if err != nil {
		return err
	}
	settled := uint64(0)
	if views.Leading().Mined > 0 {
		if views, err = d.Nodes.Views(ctx, id.Address, d.Token.Contract, d.ConfirmationRule); err != nil {
			return err
		}
		if settled, err = views.FinalCount(ctx, id.Address); err != nil {
			return err
		}
	}
	w, err := wallet.FirstUse(id, views, settled, d.Window)
	if err != nil {
		if _, unread := d.Store.Wallet(ctx, id); unread == nil {
			return nil // another process has opened it, and the transactions are its own
		}
		return err
	}
	w.Paused = suspicion
	if err := d.Store.Open(ctx, w); err != nil {
		return err
	}
	d.pool.Saw(w)
	return nil
}
