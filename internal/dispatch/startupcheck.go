package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"remit/internal/wallet"
)

// startupCheck looks at every wallet once in a process's life, before its first
// reservation. It refuses to pay at all while the chain is ahead of any: then another
// program uses a key, or the tables were restored from the past and a payment made
// since could be made again. Two requests that come at once may both do it;
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

// look holds every wallet against the chain, those too that are draining or
// whose key is gone: a payment that the tables have forgotten may be theirs.
// Then it opens those that have no record, and pauses them if one of them has paid
// before: the tables may have lost its record, and the payments with it. If it
// crashes in between, the next request looks again.
func (d sending) look(ctx context.Context) error {
	held, err := d.Keys.All(ctx)
	if err != nil {
		return err
	}
	ids, err := d.Store.Wallets(ctx, d.ChainID)
	if err != nil {
		return err
	}
	for _, a := range held {
		if id := (wallet.ID{ChainID: d.ChainID, Address: a}); !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	paused, unknown := make([]string, len(ids)), make([]bool, len(ids))
	err = abreast(len(ids), func(i int) error {
		w, err := d.Store.Wallet(ctx, ids[i])
		switch {
		case errors.Is(err, wallet.ErrUnknown):
			unknown[i] = true
			return nil
		case err != nil:
			return err
		}
		paused[i] = w.Paused
		return d.compare(ctx, w)
	})
	if err != nil {
		return err
	}
	first := make([]firstUse, len(ids))
	err = abreast(len(ids), func(i int) (err error) {
		if unknown[i] {
			first[i], err = d.firstUse(ctx, ids[i])
		}
		return err
	})
	if err != nil {
		return err
	}
	suspicion := ""
	for i := range ids {
		if strings.HasPrefix(paused[i], wallet.Suspicion) {
			suspicion = paused[i]
		} else if first[i].forgotten {
			suspicion = fmt.Sprintf("%s: %d transactions of %s are mined, and the tables have no record of it", wallet.Suspicion, first[i].wallet.NextNonce, ids[i].Address)
		}
	}
	return abreast(len(ids), func(i int) error {
		if !unknown[i] {
			return nil
		}
		return d.open(ctx, ids[i], first[i], suspicion)
	})
}

// abreast calls do for 0 to n-1, some at once, and returns the first error once
// all are done: a process with many wallets must not ask for one after the other
// before its first payment.
func abreast(n int, do func(i int) error) error {
	var group errgroup.Group
	group.SetLimit(16)
	for i := range n {
		group.Go(func() error { return do(i) })
	}
	return group.Wait()
}

// compare holds a wallet against the chain. What it learns of it, the pool
// knows from then on.
func (d sending) compare(ctx context.Context, w wallet.Wallet) error {
	d.pool.Saw(w)
	views, err := d.Nodes.Latest(ctx, w.Address, d.Token.Contract)
	if err != nil {
		return err
	}
	for _, view := range views {
		if view.Mined <= w.NextNonce {
			continue
		}
		fresh, err := d.Store.Wallet(ctx, w.ID) // others reserve between our read and the node's answer
		if err != nil {
			return err
		}
		if view.Mined > fresh.NextNonce {
			return fmt.Errorf("%w: %s says %d of wallet %s, next nonce is %d",
				wallet.ErrBehind, view.Node, view.Mined, w.Address, fresh.NextNonce)
		}
	}
	return nil
}

// A firstUse is the record of a wallet that has none, or why it cannot be used yet.
type firstUse struct {
	wallet    wallet.Wallet
	foreign   error
	forgotten bool // it has paid before: another program did, or the tables have lost it
}

// firstUse returns the record of a wallet seen for the first time.
func (d sending) firstUse(ctx context.Context, id wallet.ID) (first firstUse, err error) {
	views, err := d.Nodes.Latest(ctx, id.Address, d.Token.Contract)
	if err != nil {
		return first, err
	}
	settled := uint64(0)
	if views.Leading().Mined > 0 {
		if views, err = d.Nodes.Views(ctx, id.Address, d.Token.Contract, d.ConfirmationRule); err != nil {
			return first, err
		}
		if settled, err = views.FinalCount(ctx, id.Address); err != nil {
			return first, err
		}
	}
	first.wallet, first.foreign = wallet.FirstUse(id, views, settled, d.Window)
	if first.foreign == nil && settled > 0 && !d.Ephemeral {
		// Read again: another process may have opened it, and paid since.
		_, err = d.Store.Wallet(ctx, id)
		first.forgotten = errors.Is(err, wallet.ErrUnknown)
		if first.forgotten {
			err = nil
		}
	}
	return first, err
}

// open makes the record of a wallet seen for the first time, paused for the
// suspicion, if there is one.
func (d sending) open(ctx context.Context, id wallet.ID, first firstUse, suspicion string) error {
	if first.foreign == nil {
		first.wallet.Paused = suspicion
		if err := d.Store.Open(ctx, first.wallet); err != nil {
			return err
		}
	}
	// Another process may have opened it first. Then the transactions that the
	// nodes hold of it may be ours.
	w, err := d.Store.Wallet(ctx, id)
	switch {
	case errors.Is(err, wallet.ErrUnknown) && first.foreign != nil:
		return first.foreign
	case err != nil:
		return err
	}
	d.pool.Saw(w)
	return nil
}
