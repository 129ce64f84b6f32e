package dispatch

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
)

// A Wiring makes a rail's dispatcher.
type Wiring struct {
	// Config returns a rail's configuration.
	Config func(store.Rail) (stack.Config, error)
	// Nodes returns the nodes of a rail's chain.
	Nodes func(stack.Config) chain.Provider
	// Hints returns a rail's Hinter; nil: use Parts.Hints.
	Hints func(stack.Config) Hinter
	// Chains returns the chains that have nodes; nil: the rails' chains.
	Chains func(context.Context) ([]uint64, error)
}

// Rails send payments, each by the dispatcher of its rail, which has nodes, hints and a log of its own. The first
// rail's payments name no asset.
type Rails struct {
	Parts
	Wiring
	rules settings.Cached[store.Rules]

	mu    sync.Mutex
	known []*Dispatcher // of the rails as they were read last
}

// NewRails returns rails without calling any port. It replaces the Nodes of parts.
func NewRails(wiring Wiring, parts Parts) *Rails { return &Rails{Parts: parts, Wiring: wiring} }

// Send makes the payment of q, as Dispatcher.Send does.
func (r *Rails) Send(ctx context.Context, q payment.Request) (Result, error) {
	d, err := r.Of(ctx, q.Asset)
	if err != nil {
		return Result{}, unknown(q, err)
	}
	return d.Send(ctx, q)
}

// Of returns the dispatcher of a coin, or of the first rail if that is zero. Rails that have been read once are
// known also while the store does not answer.
func (r *Rails) Of(ctx context.Context, c token.Coin) (*Dispatcher, error) {
	all, err := r.all(ctx)
	for _, d := range all {
		if c == (token.Coin{}) || d.Coin() == c {
			return d, nil
		}
	}
	return nil, cmp.Or(err, errors.Join(ErrUnavailable, settings.ErrMissing))
}

// Assets returns the assets of the rails.
func (r *Rails) Assets(ctx context.Context) (stack.Assets, error) {
	rules, err := r.rules.Get(ctx, r.Now(), r.read)
	return rules.Assets(), err
}

// read reads the rails, and logs whether the settings of each can be obeyed.
func (r *Rails) read(ctx context.Context) (store.Rules, error) {
	rules, err := r.Store.Rules(ctx)
	if err != nil || len(rules.Rails) == 0 {
		settings.Note(ctx, r.Log, "payments", 0, cmp.Or(err, settings.ErrMissing))
	}
	for _, rail := range rules.Rails {
		config, err := r.Config(rail)
		settings.Note(ctx, r.logOf(rules, rail), "payments", rail.Settings.Version,
			cmp.Or(err, rail.Unusable, config.Refused(rail.Settings)))
	}
	return rules, err
}

// logOf returns the log of a rail, which it names if there are several.
func (r *Rails) logOf(rules store.Rules, rail store.Rail) *slog.Logger {
	if len(rules.Rails) == 1 {
		return r.Log
	}
	return r.Log.With("rail", rail.Coin.String())
}

// all returns the dispatchers of all rails, in their order. After an error they are the ones read last.
func (r *Rails) all(ctx context.Context) ([]*Dispatcher, error) {
	rules, err := r.rules.Get(ctx, r.Now(), r.read)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		return r.known, err
	}
	var now []*Dispatcher
	for i, rail := range rules.Rails {
		config, err := r.Config(rail)
		if err != nil {
			return r.known, err
		}
		config.Further = i > 0
		was := slices.IndexFunc(r.known, func(d *Dispatcher) bool { return d.Config == config })
		if was >= 0 {
			now = append(now, r.known[was])
			continue
		}
		parts := r.Parts
		parts.Nodes = r.Wiring.Nodes(config)
		if parts.Log = r.logOf(rules, rail); r.Wiring.Hints != nil {
			parts.Hints = r.Wiring.Hints(config)
		}
		d := New(config, parts)
		d.rules, d.rails = &r.rules, r
		now = append(now, d)
	}
	r.known = now
	return now, nil
}

func (r *Rails) several() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.known) > 1
}

// others returns the dispatchers of the other rails, none for a dispatcher that has no Rails.
func (d *Dispatcher) others(ctx context.Context) ([]*Dispatcher, error) {
	if d.rails == nil {
		return nil, nil
	}
	all, err := d.rails.all(ctx)
	return slices.DeleteFunc(slices.Clone(all), func(o *Dispatcher) bool { return o.Coin() == d.Coin() }), err
}
