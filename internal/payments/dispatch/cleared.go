package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/store"
)

// errUncleared reports a rail of which these tables may lack payments: a key that one of them used could pay again.
var errUncleared = errors.New("its payments may be missing from the tables: run remit recover, or close the rail")

// errStrange reports a chain that has nodes and no rail: the tables may have been restored to before it was added.
var errStrange = errors.New("the RPC secret names a chain that no rail has; add the rail and run remit recover, or remove the nodes")

// othersCleared returns an error unless every other open rail was compared with its chain, and found abreast of these
// tables once, since they came to be. Keys are the merchant's, whatever the asset: tables that lack a payment of one
// rail would let its key pay on another. A run of check-receipts has noted it, or else this process compares.
func (d sending) othersCleared(ctx context.Context) error {
	others, err := d.others(ctx)
	if err != nil || len(others) == 0 {
		return err
	}
	all, err := d.rules.Get(ctx, d.Now(), d.rails.read)
	if err != nil {
		return err
	}
	own, err := d.Store.Compared(ctx, d.Coin())
	if err != nil {
		return err
	}
	var checks errgroup.Group
	for _, o := range others {
		rail := all.Rail(o.Coin())
		if rail.Settings.Closed {
			continue
		}
		checks.Go(func() error {
			if err := o.cleared(ctx, rail, own); err != nil {
				return fmt.Errorf("rail %s: %w", o.Coin(), err)
			}
			return nil
		})
	}
	return checks.Wait()
}

// recent reports whether a run of check-receipts has seen these tables just now.
func (d *Dispatcher) recent(ran time.Time) bool {
	age := d.Now().Sub(ran)
	return age >= -skew && age < comparedFor
}

// cleared returns an error unless the rail lacks no payment. own is the comparison of the rail that is to pay.
func (d *Dispatcher) cleared(ctx context.Context, rail store.Rail, own store.Comparison) error {
	known, err := d.Store.Compared(ctx, d.Coin())
	if err != nil {
		return err
	}
	if d.recent(known.Ran) && known.Cleared() {
		return nil
	}
	mark, err := d.Store.Compared(ctx, token.Coin{ChainID: d.ChainID})
	switch {
	case err != nil:
		return err
	case mark.Ran.After(known.Abreast): // it had nodes before it was added
		return errUncleared
	case d.recent(own.Ran) && rail.Added.After(own.Since.Add(skew)):
		return nil // these tables have been the stack's since before the rail was there
	}
	return d.compareCleared(ctx)
}

// compareCleared compares every wallet of the rail, also those that have never paid by these tables.
func (d *Dispatcher) compareCleared(ctx context.Context) error {
	wallets, err := d.Store.Wallets(ctx, d.Coin())
	opened, unopened := wallets.Working(true), wallets.Working(false)
	if err != nil || len(opened)+len(unopened) == 0 {
		return err
	}
	nodes, err := d.Nodes.Nodes(ctx)
	if err != nil {
		return err
	}
	s := sending{Dispatcher: d, Nodes: nodes}
	for _, r := range opened {
		if err := s.compare(ctx, r); err != nil {
			return err
		}
		w, err := s.record(ctx, r)
		if err == nil && w.Suspect() {
			err = errUncleared
		}
		if err != nil {
			return err
		}
	}
	for _, r := range unopened {
		views, err := nodes.Latest(ctx, r.Address, d.Token.Contract)
		if err != nil {
			return err
		}
		if count, _ := nodes.Ahead(ctx, d.Log, views, r.Address, 0); count > 0 {
			return errUncleared
		}
	}
	return nil
}
