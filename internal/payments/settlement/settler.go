// Package settlement takes payments from broadcast to final: it finishes the
// reservations of crashed handlers, learns from the nodes which transactions are
// mined, publishes the events, and keeps the other transactions in the nodes'
// pools. It is the engine of check-receipts. Runs may overlap
// or be killed anywhere: every write is conditional and every step may be
// repeated.
package settlement

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/settings"
	"github.com/remit-payouts/remit/internal/evm/stack"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// ReservationAge is how old a reservation is before a run finishes it: more
// than the 29 seconds that a handler of send-payment lives.
const ReservationAge = 45 * time.Second

// BumpAfter is how long the lowest nonce waits before its fees are raised.
const BumpAfter = 3 * time.Minute

const (
	// claimTime is how long a run's claim on a wallet lasts. Every round
	// renews it.
	claimTime = 15 * time.Second
	// closing is how much of a run's time is kept for ending cleanly.
	closing = 5 * time.Second
	// width bounds how much of one kind is done at once.
	width = 16
	// skew is how far apart the clocks of two hosts may be before one is not believed. Code that
	// relies on a time written by another host must be as safe when it acts early, so that a wrong
	// clock delays nothing.
	skew = 5 * time.Second
)

// Events publishes the events of payments to merchants' endpoints.
type Events interface {
	// Named reports whether an endpoint of a merchant names a type of event.
	Named(ctx context.Context, o webhook.Owner, kind string) (bool, error)

	// Publish stores and queues an event's deliveries, or returns an error and
	// will be called again with the same event.
	Publish(ctx context.Context, e webhook.Event) error
}

// A Refiller tops up wallets that run low.
type Refiller interface {
	// Refill sends an amount of ether, or of the token, to a wallet that lacks it in
	// the block seen, or later, unless it is under way already. It may be repeated.
	Refill(ctx context.Context, to token.Address, ether bool, seen uint64) error
}

// Parts are the ports of a Settler.
type Parts struct {
	Store  Store
	Keys   wallet.Keys
	Nodes  chain.Provider
	Events Events
	// Refiller starts refills. Only Refill uses it; a round does not.
	Refiller Refiller
	Log      *slog.Logger
	Now      func() time.Time
	Wait     func(ctx context.Context, d time.Duration) // sleeps, or returns early when ctx ends; nil: Sleep
}

// A Settler settles the payments of one chain.
type Settler struct {
	stack.Config
	Parts
	cached settings.Cached[stack.Rules]

	mu    sync.Mutex
	named map[webhook.Owner]naming // who wants payment.mined
	// When a node last failed at receipts that only show progress, and first since all gave them; zero for never.
	failed, failing time.Time
}

// New returns a settler.
func New(config stack.Config, parts Parts) *Settler {
	config.ReservationAge = cmp.Or(config.ReservationAge, ReservationAge)
	config.BumpAfter = cmp.Or(config.BumpAfter, BumpAfter)
	if parts.Wait == nil {
		parts.Wait = Sleep
	}
	return &Settler{Config: config, Parts: parts, named: map[webhook.Owner]naming{}}
}

// rules returns the rules of the moment, less than settings.MaxAge old, or why there are
// none.
func (s *Settler) rules(ctx context.Context) (stack.Rules, error) {
	return s.cached.Get(ctx, s.Now(), func(ctx context.Context) (stack.Rules, error) {
		all, err := s.Store.Rules(ctx)
		err = cmp.Or(err, all.Are(store.Coin{ChainID: s.ChainID, Token: s.Token.Contract}), all.Unusable)
		settings.Note(ctx, s.Log, "payments", all.Settings.Version, cmp.Or(err, s.Refused(all.Settings)))
		return s.Rules(all.Settings), err
	})
}

// Run settles until nothing is pending or its time is over, going round about
// once a block. by names the run in its claims on wallets. The report
// counts the work done even when the last round ended in an error: a wallet
// that fails does not hold up the others, and is tried again.
func (s *Settler) Run(ctx context.Context, by string) (Report, error) {
	total := Report{}
	if _, err := s.Nodes.Nodes(ctx); err != nil {
		return total, fmt.Errorf("finding nodes: %w", err)
	}
	patient, began := true, s.Now()
	run := &run{by: by, compared: new(sync.Map)}
	defer func() {
		if run.compared != nil {
			s.share(ctx, run)
		}
	}()
	for {
		round, all, err := s.round(ctx, run)
		total.next(round)
		if all && total.Suspect == 0 {
			run.known.At = began
		}
		if all || run.news {
			s.share(ctx, run)
		}
		if all {
			run.compared = nil
		}
		pause := s.BlockTime
		switch {
		case round.Busy || err != nil:
			patient = true
		case round.ClaimedElsewhere && patient:
			// Another run claims a wallet. If it was killed, its claim ends.
			patient, pause = false, claimTime
		default:
			return total, nil
		}
		if s.short(ctx, pause) {
			return total, errors.Join(err, s.yield(ctx, run))
		}
		s.Wait(ctx, pause)
	}
}

// yield ends the claims of a run whose time is over, so that the next one finds
// the wallets free, and stores what its last round saw. A crash leaves claims that end by
// themselves.
func (s *Settler) yield(ctx context.Context, r *run) error {
	wallets, err := s.Store.Wallets(ctx, s.ChainID)
	if err != nil {
		return fmt.Errorf("listing wallets: %w", err)
	}
	var errs []error
	now := s.Now()
	for _, w := range wallets.Working(true) {
		seen := &wallet.Progress{} // what an earlier version may have hidden is not known to hold
		if remembered, ok := r.mined.Load(w.ID); ok {
			seen = remembered.(mined).seen
		}
		if _, err := s.Store.Claim(ctx, w.ID, r.by, now, now, seen); err != nil {
			errs = append(errs, fmt.Errorf("ending the claim on %s: %w", w.Address, err))
		}
	}
	return errors.Join(errs...)
}

// A run is what a run remembers from round to round.
type run struct {
	by       string
	compared *sync.Map         // the wallet.IDs that it has compared with the chain; nil: idle wallets are not looked at
	mined    sync.Map          // a mined of each wallet.ID of which the round before saw something or had no error
	known    *store.Comparison // nil until it is read, and again when it could not be stored
	news     bool              // known differs from what is stored on which nodes are silent
}

// share stores what the run has learned of the chain: also for processes that start, that
// every wallet was compared, and since when nodes are silent. A crash before costs such a
// process a comparison of its own, and a node that has answered now is forgotten to have.
func (s *Settler) share(ctx context.Context, r *run) {
	if r.known == nil {
		return
	}
	for node, since := range r.known.Silent {
		s.Log.WarnContext(ctx, "node is silent", "node", node, "since", since, "left_out_after", s.SilentAfter)
	}
	err := s.Store.SetCompared(ctx, s.ChainID, *r.known)
	if r.known.Revision, r.news = r.known.Revision+1, false; err != nil {
		s.Log.WarnContext(ctx, "comparison not stored", "err", err)
		r.known = nil // the next round reads it
	}
}

// Round passes over every wallet once. An idle wallet is looked at only when
// idle is true.
func (s *Settler) Round(ctx context.Context, by string, idle bool) (Report, error) {
	r := &run{by: by}
	if idle {
		r.compared = new(sync.Map)
	}
	report, _, err := s.round(ctx, r)
	return report, err
}

// round passes over every wallet once, over an idle one only if it is not in
// compared. It adds to compared each wallet with which it has compared the chain, and
// reports whether all are in it then.
func (s *Settler) round(ctx context.Context, r *run) (report Report, all bool, err error) {
	nodes, err := s.Nodes.Nodes(ctx)
	if err != nil {
		return report, all, fmt.Errorf("finding nodes: %w", err)
	}
	wallets, err := s.Store.Wallets(ctx, s.ChainID)
	if err != nil {
		return report, all, fmt.Errorf("listing wallets: %w", err)
	}
	if r.known == nil {
		known, err := s.Store.Compared(ctx, s.ChainID)
		if err != nil {
			return report, all, fmt.Errorf("reading what is known of the chain: %w", err)
		}
		r.known = &known
		r.mined.Clear()
	}
	before := r.known.Final
	rules, unusable := s.rules(ctx)
	if unusable != nil || s.Refused(rules.Settings) != nil {
		report.Unruled = 1
	}
	if errors.Is(unusable, store.ErrOtherCoin) {
		return report, all, unusable
	}
	var heads chain.Heads
	var stands standing
	var silent int
	var long bool
	// Closed once heads are read, beside the tables of the first wallets, and stands beside their
	// accounts.
	read, weighed := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(weighed)
		heads = nodes.Heads(ctx, s.ConfirmationRule)
		var news bool
		silent, news = s.listen(ctx, heads, r.known)
		r.news = r.news || news
		close(read)
		stands, long = s.weigh(ctx, heads, r.known, silent)
	}()
	known := after(weighed, &r.known.Final)
	if r.compared != nil {
		var watching sync.WaitGroup // beside the passes
		watching.Go(func() { s.watch(ctx, nodes, r.by, wallets) })
		defer watching.Wait()
	}
	var mu sync.Mutex
	all = r.compared != nil
	err = abreast(wallets.Working(true), func(registered wallet.Registration) error {
		p := &pass{
			Settler: s, Nodes: nodes, Rules: rules, unusable: unusable, registered: registered,
			heads: after(read, &heads), silent: after(read, &silent), stands: after(weighed, &stands), known: known,
			moved: func() bool { return known() != before },
		}
		if remembered, ok := r.mined.LoadAndDelete(registered.ID); ok {
			p.recall(remembered.(mined))
		}
		missing := false
		if r.compared != nil {
			_, done := r.compared.Load(registered.ID)
			missing = !done
		}
		err := p.over(ctx, r.by, missing)
		if err == nil || p.seen != nil {
			r.mined.Store(registered.ID, p.remember(err))
		}
		if missing && p.compared {
			r.compared.Store(registered.ID, nil)
		}
		mu.Lock()
		defer mu.Unlock()
		all = all && (!missing || p.compared)
		report.add(p.report)
		if err != nil {
			return fmt.Errorf("settling wallet %s: %w", registered.Address, err)
		}
		return nil
	})
	if <-weighed; long {
		report.Paused++
	}
	for _, r := range wallets {
		if r.State == wallet.Damaged {
			report.Unreadable++
			s.Log.ErrorContext(ctx, "registration of a wallet cannot be read", "wallet", r.Address)
		}
	}
	return report, all, err
}

// after returns a function that returns *value once done is closed.
func after[T any](done <-chan struct{}, value *T) func() T {
	return func() T {
		<-done
		return *value
	}
}

// short reports whether less than need, and the time to end cleanly, is left.
func (s *Settler) short(ctx context.Context, need time.Duration) bool {
	if ctx.Err() != nil {
		return true
	}
	deadline, ok := ctx.Deadline()
	return ok && deadline.Sub(s.Now()) < need+closing
}

// age is how long ago something happened, by our clock. A time far ahead of it
// was written by a clock that is wrong, and counts as very long ago.
func (s *Settler) age(at time.Time) time.Duration {
	age := s.Now().Sub(at)
	if age < -skew {
		return math.MaxInt64
	}
	return age
}

// abreast calls do for every item, at most width at once, and returns all their
// errors when all calls have returned.
func abreast[T any](items []T, do func(T) error) error {
	errs := make([]error, len(items))
	var group errgroup.Group
	group.SetLimit(width)
	for i, item := range items {
		group.Go(func() error {
			errs[i] = do(item)
			return nil
		})
	}
	_ = group.Wait() // no call of the group returns an error
	return errors.Join(errs...)
}

// Sleep waits for d, or until ctx ends.
func Sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
