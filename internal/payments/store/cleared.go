package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/remit-payouts/remit/internal/evm/token"
)

const (
	// ComparedFor is how long a note of a check-receipts run counts: a minute until the next run, and half a minute for
	// that run.
	ComparedFor = 90 * time.Second
	// Skew is how far another host's clock may be ahead.
	Skew = 5 * time.Second
)

// ErrUncleared reports a rail of which these tables may lack payments: a key that one of them used could pay again.
var ErrUncleared = errors.New("its payments may be missing from the tables: run remit recover, or close the rail; open a closed one first")

// Cleared reports whether the rail has been compared with its chain and found abreast of the tables in this series of
// runs, which goes on: then these tables lack no payment of it.
func (c Comparison) Cleared(now time.Time) bool {
	return c.goesOn(now) && !c.Abreast.IsZero() && !c.Abreast.Before(c.Since)
}

// NoteLost notes, until a recovery of the chain, that it had nodes and no rail: a rail of it that is added later may
// have made payments that the tables lack, from wallets that they lack too. The zero time ends the note.
func NoteLost(ctx context.Context, s interface {
	Compared(ctx context.Context, rail token.Coin) (Comparison, error)
	SetCompared(ctx context.Context, rail token.Coin, c Comparison) error
}, chainID uint64, at time.Time) error {
	c := token.Coin{ChainID: chainID}
	note, err := s.Compared(ctx, c)
	if err != nil || note.Ran.IsZero() == at.IsZero() {
		return err
	}
	return s.SetCompared(ctx, c, Comparison{Ran: at, Revision: note.Revision})
}

func (c Comparison) goesOn(now time.Time) bool {
	age := now.Sub(c.Ran)
	return age >= -Skew && age < ComparedFor
}

// Uncleared returns the rails beside own that no run of check-receipts has cleared. Keys are the merchant's, whatever
// the asset: tables that lack a payment of one rail would let its key pay on another. Left out are rails that were
// closed, or added, since the series of runs began: these tables were the stack's before. A rail that had nodes before
// it was added is ErrUncleared, also as own, as no comparison finds the wallets that the tables lack.
func (r Rules) Uncleared(ctx context.Context, s interface {
	Compared(ctx context.Context, rail token.Coin) (Comparison, error)
}, own token.Coin, now time.Time) (uncleared []Rail, err error) {
	if len(r.Rails) < 2 {
		return nil, nil
	}
	known := make([]Comparison, len(r.Rails))
	var reads errgroup.Group
	for i, rail := range r.Rails {
		reads.Go(func() (err error) {
			known[i], err = s.Compared(ctx, rail.Coin)
			return err
		})
	}
	if err := reads.Wait(); err != nil {
		return nil, err
	}
	var since time.Time // of the series; zero: none goes on
	for _, c := range known {
		if c.goesOn(now) && (since.IsZero() || c.Since.Before(since)) {
			since = c.Since
		}
	}
	within := func(at time.Time) bool { // at of a clock that is far ahead may be before
		return !since.IsZero() && at.After(since.Add(Skew)) && !at.After(now.Add(Skew))
	}
	for i, rail := range r.Rails {
		if within(rail.ClosedAt) || known[i].Cleared(now) {
			continue
		}
		mark, err := s.Compared(ctx, token.Coin{ChainID: rail.Coin.ChainID})
		switch {
		case err != nil:
			return nil, err
		case !mark.Ran.IsZero():
			return nil, fmt.Errorf("rail %s: %w", rail.Coin, ErrUncleared)
		case rail.Coin != own && !within(rail.Added):
			uncleared = append(uncleared, rail)
		}
	}
	return uncleared, nil
}
