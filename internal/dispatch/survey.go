package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"remit/internal/wallet"
)

// survey looks at every wallet once in a process's life, before its first
// lease. It refuses to pay at all while the chain is ahead of any: then somebody
// else uses a key, or the tables were restored from the past and a payment made
// since could be made again. What two requests do of it at once is done once;
// neither holds up the other.
func (d *Dispatcher) survey(ctx context.Context) error {
	d.mu.Lock()
	surveyed := d.surveyed
	d.mu.Unlock()
	if surveyed {
		return nil
	}
	if err := d.look(ctx); err != nil {
		return errors.Join(ErrUnavailable, err)
	}
	d.mu.Lock()
	d.surveyed = true
	d.mu.Unlock()
	return nil
}

// look holds every wallet against the chain, those too that are draining or
// whose key is gone: a payment that the tables have forgotten may be theirs.
// Then it opens those that have no record. If it crashes in between, the next
// request looks again.
func (d *Dispatcher) look(ctx context.Context) error {
	held, err := d.Keys.All(ctx)
	if err != nil {
		return err
	}
	ids, err := d.Wallets.Roster(ctx, d.ChainID)
	if err != nil {
		return err
	}
	for _, a := range held {
		if id := (wallet.ID{ChainID: d.ChainID, Address: a}); !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	var unknown []wallet.ID
	suspicion := ""
	for _, id := range ids {
		w, err := d.Wallets.Wallet(ctx, id)
		switch {
		case errors.Is(err, wallet.ErrUnknown):
			unknown = append(unknown, id)
			continue
		case err != nil:
			return err
		}
		if err := d.compare(ctx, w); err != nil {
			return err
		}
		if strings.HasPrefix(w.Paused, wallet.Suspicion) {
			suspicion = w.Paused
		}
		d.pool.Saw(w)
	}
	for _, id := range unknown {
		if err := d.open(ctx, id, suspicion); err != nil {
			return err
		}
	}
	return nil
}

// compare holds a wallet against the chain.
func (d *Dispatcher) compare(ctx context.Context, w wallet.Wallet) error {
	views, err := d.Nodes.Views(ctx, w.Address, d.Token.Contract, d.Finality)
	if err != nil {
		return err
	}
	for _, view := range views {
		if view.Mined <= w.NextNonce {
			continue
		}
		fresh, err := d.Wallets.Wallet(ctx, w.ID) // others lease between our read and the node's answer
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

// open makes the record of a wallet seen for the first time, paused for the
// suspicion that others are paused for.
func (d *Dispatcher) open(ctx context.Context, id wallet.ID, suspicion string) error {
	views, err := d.Nodes.Views(ctx, id.Address, d.Token.Contract, d.Finality)
	if err != nil {
		return err
	}
	settled, err := views.Settled(ctx, id.Address)
	if err != nil {
		return err
	}
	w, foreign := wallet.FirstSight(id, views, settled, d.Window)
	if foreign == nil {
		w.Paused = suspicion
		if err := d.Wallets.Open(ctx, w); err != nil {
			return err
		}
	}
	// Somebody else may have opened it first. Then what the nodes hold of it
	// may be ours.
	w, err = d.Wallets.Wallet(ctx, id)
	switch {
	case errors.Is(err, wallet.ErrUnknown) && foreign != nil:
		return foreign
	case err != nil:
		return err
	}
	d.pool.Saw(w)
	return nil
}
