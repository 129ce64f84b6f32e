package settlement

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/store"
)

// A Wiring makes a rail's settler.
type Wiring struct {
	Config func(store.Rail) (stack.Config, error)
	Nodes  func(stack.Config) chain.Provider
	// Refiller returns a rail's Refiller; nil: there are no refills.
	Refiller func(context.Context, token.Coin) (Refiller, error)
}

// Rails settle the payments of every rail, side by side, each by a settler of its own.
type Rails struct {
	Parts
	Wiring

	mu       sync.Mutex
	settlers map[token.Coin]*Settler
}

// NewRails returns rails without calling any port. A rail's settler has its Nodes and Refiller from wiring.
func NewRails(wiring Wiring, parts Parts) *Rails {
	return &Rails{Parts: parts, Wiring: wiring, settlers: map[token.Coin]*Settler{}}
}

// An Account is the report of one rail.
type Account struct {
	stack.Config
	Rail   settings.Rail
	Report Report
	Err    error // why the rail's part of the run failed
}

// Run settles each rail, as Settler.Run does, and returns their reports. A rail that hangs or fails holds up no other.
// Run returns an error if all fail, or if it cannot record that a chain has no rail; it logs other failures.
func (r *Rails) Run(ctx context.Context, by string) ([]Account, error) {
	return r.each(ctx, func(s *Settler) (Report, error) { return s.Run(ctx, by) })
}

// Refill checks the wallets of each rail, as Settler.Refill does.
func (r *Rails) Refill(ctx context.Context) ([]Account, error) {
	return r.each(ctx, func(s *Settler) (Report, error) { return s.Refill(ctx) })
}

func (r *Rails) each(ctx context.Context, do func(*Settler) (Report, error)) ([]Account, error) {
	var chains []uint64
	if r.Chains != nil { // read before the rails: an operator's command stores a rail first, then its nodes
		chains, _ = r.Chains(ctx)
	}
	rules, err := r.Store.Rules(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the rails: %w", err)
	}
	accounts := make([]Account, len(rules.Rails))
	var settling sync.WaitGroup
	for i, rail := range rules.Rails {
		settling.Go(func() {
			a := &accounts[i]
			s, err := r.settler(ctx, rules, i)
			if err == nil {
				a.Config, a.Rail = s.Config, rail.Terms()
				a.Report, err = do(s)
			}
			if a.Err = err; err != nil && len(rules.Rails) > 1 {
				a.Err = fmt.Errorf("rail %s: %w", rail.Coin, err)
				r.Log.ErrorContext(ctx, "rail failed", "rail", rail.Coin.String(), "err", err)
			}
		})
	}
	var lost error
	for _, id := range rules.Without(chains) {
		r.Log.ErrorContext(ctx, "a chain has nodes and no rail", "chain_id", id)
		lost = errors.Join(lost, store.NoteLost(ctx, r.Store, id, r.Now()))
	}
	settling.Wait()
	for _, a := range accounts {
		if a.Err == nil {
			return accounts, lost
		}
		err = errors.Join(err, a.Err)
	}
	return accounts, errors.Join(err, lost)
}

// settler returns the settler of a rail: the one of the last run, unless its configuration has changed since.
func (r *Rails) settler(ctx context.Context, rules store.Rules, i int) (*Settler, error) {
	rail := rules.Rails[i]
	config, err := r.Config(rail)
	if err != nil {
		return nil, err
	}
	config.ReservationAge, config.BumpAfter = cmp.Or(config.ReservationAge, ReservationAge), cmp.Or(config.BumpAfter, BumpAfter)
	parts := r.Parts
	parts.Nodes = r.Wiring.Nodes(config)
	if r.Wiring.Refiller != nil {
		if parts.Refiller, err = r.Wiring.Refiller(ctx, rail.Coin); err != nil {
			return nil, err
		}
	}
	if len(rules.Rails) > 1 {
		parts.Log = parts.Log.With("rail", rail.Coin.String())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if was := r.settlers[rail.Coin]; was != nil && was.Config == config {
		return was, nil
	}
	s := New(config, parts)
	r.settlers[rail.Coin] = s
	return s, nil
}
