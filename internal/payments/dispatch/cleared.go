package dispatch

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/remit-payouts/remit/internal/payments/store"
)

// uncleared returns the other rails of which these tables may lack payments (store.Rules.Uncleared). It returns an
// error while a chain has nodes and no rail.
func (d *Dispatcher) uncleared(ctx context.Context) ([]store.Rail, error) {
	if d.rails == nil || d.Ephemeral {
		return nil, nil
	}
	all, err := d.rules.Get(ctx, d.Now(), d.rails.read)
	if err = cmp.Or(err, d.strange(ctx, all)); err != nil {
		return nil, err
	}
	return all.Uncleared(ctx, d.Store, d.Coin(), d.Now())
}

// othersCleared returns an error unless every other rail is cleared: by a run of check-receipts, or else by comparing
// it here.
func (d sending) othersCleared(ctx context.Context) error {
	others, err := d.others(ctx)
	uncleared, unread := d.uncleared(ctx)
	if err = cmp.Or(err, unread); err != nil {
		return err
	}
	var checks errgroup.Group
	for _, rail := range uncleared {
		i := slices.IndexFunc(others, func(o *Dispatcher) bool { return o.Coin() == rail.Coin })
		checks.Go(func() error {
			err := store.ErrUncleared
			if i >= 0 {
				err = others[i].compareCleared(ctx)
			}
			if err != nil {
				err = fmt.Errorf("rail %s: %w", rail.Coin, err)
			}
			return err
		})
	}
	return checks.Wait()
}

// compareCleared compares every wallet of the rail with its chain, also those that have never paid by these tables. It
// returns an error if there is none, or all are retired: the tables may have lost the wallets.
func (d *Dispatcher) compareCleared(ctx context.Context) error {
	wallets, err := d.Store.Wallets(ctx, d.Coin())
	nodes, none := d.Nodes.Nodes(ctx)
	if err = cmp.Or(err, none); err != nil || len(wallets.Working(true))+len(wallets.Working(false)) == 0 {
		return cmp.Or(err, store.ErrUncleared)
	}
	s := sending{Dispatcher: d, Nodes: nodes}
	for _, r := range slices.Concat(wallets.Working(true), wallets.Working(false)) {
		err := s.compare(ctx, r)
		w, unread := s.record(ctx, r)
		if err = cmp.Or(err, unread); err != nil || w.Suspect() {
			return cmp.Or(err, store.ErrUncleared)
		}
	}
	return nil
}
