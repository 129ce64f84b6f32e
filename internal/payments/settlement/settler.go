// Package settlement takes payments from broadcast to final. It finishes the reservations of crashed handlers, learns
// from the nodes which transactions are mined, publishes the events, and keeps the other transactions in the nodes'
// pools. It is the engine of check-receipts. Runs may overlap or be killed anywhere: every write is conditional, and
// every step may be repeated.
package settlement

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

const (
	// claimTime is how long a run's claim on a wallet lasts. Every round renews it.
	claimTime = 15 * time.Second
	// closing is the time that a run keeps for ending cleanly.
	closing = 5 * time.Second
	// width is how many wallets, or payments of a wallet, are handled at once.
	width = 16
)

// A Store is the part of store.Store that a Settler uses, with its contract.
type Store interface {
	store.PendingTxs
	store.Wallets

	Rules(ctx context.Context) (store.Rules, error)
	Payment(ctx context.Context, id payment.ID) (payment.Payment, error)
	SetMined(ctx context.Context, id payment.ID, at time.Time) (payment.Payment, error)
	Finish(ctx context.Context, p payment.Payment) error

	Release(ctx context.Context, id payment.ID, tx wallet.PendingTx) error
	Orphan(ctx context.Context, id wallet.ID, holder payment.ID, nonce uint64) error
	RaiseCeiling(ctx context.Context, id wallet.ID, ceiling uint64) error
	LowerCeiling(ctx context.Context, id wallet.ID, ceiling uint64) error
}

// Events publishes the events of payments to merchants' endpoints.
type Events interface {
	// Named reports whether an endpoint of a merchant names a type of event.
	Named(ctx context.Context, o webhook.Owner, kind string) (bool, error)

	// Publish stores and queues an event's deliveries. After an error the caller publishes the same event again.
	Publish(ctx context.Context, e webhook.Event) error
}

// A Refiller tops up wallets that run low.
type Refiller interface {
	// Refill sends ether, or the token, to a wallet that lacks it at block seen, unless a refill is
	// under way or ended after that block. It may be repeated.
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
	// Chains returns the chains that have nodes; nil: the rails' chains.
	Chains func(context.Context) ([]uint64, error)
	Log    *slog.Logger
	Now    func() time.Time
	Wait   func(ctx context.Context, d time.Duration) // sleeps, or returns early when ctx ends; nil: Sleep
}

// A Settler settles the payments of one rail.
type Settler struct {
	stack.Config
	Parts
	cached settings.Cached[store.Rules]
	// The last round left a payment undecided. If so, the next run's first round waits for every node, at most until
	// the run's time is over.
	undecided atomic.Bool
}

// New returns a settler, with defaults for ReservationAge, BumpAfter and Wait if they are zero.
func New(config stack.Config, parts Parts) *Settler {
	config.ReservationAge = cmp.Or(config.ReservationAge, ReservationAge)
	config.BumpAfter = cmp.Or(config.BumpAfter, BumpAfter)
	if parts.Wait == nil {
		parts.Wait = Sleep
	}
	return &Settler{Config: config, Parts: parts}
}

// stored returns the rails, read less than settings.MaxAge ago.
func (s *Settler) stored(ctx context.Context) (store.Rules, error) {
	return s.cached.Get(ctx, s.Now(), func(ctx context.Context) (store.Rules, error) {
		all, err := s.Store.Rules(ctx)
		rail := all.Rail(s.Coin())
		settings.Note(ctx, s.Log, "payments", rail.Settings.Version, cmp.Or(err, rail.Unusable, s.Refused(rail.Settings)))
		return all, err
	})
}

// rules returns the rail's rules, or why they cannot be used.
func (s *Settler) rules(ctx context.Context) (stack.Rules, error) {
	all, err := s.stored(ctx)
	rail := all.Rail(s.Coin())
	if err = cmp.Or(err, rail.Unusable); err != nil {
		return stack.Rules{}, err
	}
	return s.Rules(rail.Settings), nil
}

// Run makes a round about once a block until every wallet is idle or rests, or its time is over. by is the run's name
// in its claims. The report counts the work done even if the last round ended in an error: a wallet that fails does not
// hold up the others, and the next round tries it again.
func (s *Settler) Run(ctx context.Context, by string) (Report, error) {
	total, patient := Report{}, true
	run := &run{by: by, began: s.Now(), compared: new(sync.Map), patient: s.undecided.Load(), resting: true}
	defer func() {
		if run.compared != nil {
			s.storeComparison(ctx, run)
		}
	}()
	if all, _ := s.stored(ctx); len(all.Rails) > 1 && s.know(ctx, run) == nil {
		s.storeComparison(ctx, run) // at once: processes of other rails read known.Ran
	}
	if _, err := s.Nodes.Nodes(ctx); err != nil {
		if errors.Is(err, chain.ErrNoNodes) && s.unused(ctx) {
			s.Log.InfoContext(ctx, "nothing to settle before nodes are stored")
			return total, nil // no alarm for a new stack
		}
		return total, fmt.Errorf("finding nodes: %w", err)
	}
	for failed := 0; ; {
		round, all, err := s.round(ctx, run)
		if failed++; err == nil {
			failed = 0
		}
		total.next(round)
		if all && total.Suspect == 0 {
			if run.known.At = run.began; !run.held && !s.strange(ctx) {
				run.known.Abreast = run.began
			}
		}
		if all || run.changed {
			s.storeComparison(ctx, run)
		}
		if all {
			run.compared = nil
		}
		pause := max(s.BlockTime, min(run.waited, closing)) // longer while nodes limit our rate
		switch {
		case !round.Busy && failed > 1: // a dead rail with nothing under way: the next run tries again
			return total, err
		case round.Busy || err != nil:
			patient, run.resting = true, false
		case round.Resting > 0 && !run.resting:
			run.resting, pause = true, 0 // one more round, which ends the claims
		case round.ClaimedElsewhere && patient:
			// If the run that claims a wallet was killed, its claim ends within claimTime.
			patient, pause = false, claimTime
		default:
			return total, nil
		}
		if s.short(ctx, pause) {
			return total, errors.Join(err, s.releaseClaims(ctx, run))
		}
		s.Wait(ctx, pause)
	}
}

// gap is the time without a new run after which the next begins a new series (Comparison.Since). Restored tables are at
// least five minutes behind (Amazon DynamoDB Developer Guide, "Point-in-time backups"), so a restore begins one.
const gap = 5*time.Minute - store.Skew

// know reads the last comparison with the chain, and records this run in it.
func (s *Settler) know(ctx context.Context, r *run) error {
	known, err := s.Store.Compared(ctx, s.Coin())
	if err != nil {
		return fmt.Errorf("reading what is known of the chain: %w", err)
	}
	if r.began.Sub(known.Ran) >= gap || r.began.Before(known.Since) { // a later run or a wrong clock wrote Since
		known.Since, known.Abreast = r.began, time.Time{}
	}
	known.Ran = r.began
	r.known = &known
	return nil
}

// strange reports whether the chain had nodes while it had no rail, and was not recovered since: the tables may lack
// payments, and the wallets that made them. It also returns true if it cannot read that.
func (s *Settler) strange(ctx context.Context) bool {
	mark, err := s.Store.Compared(ctx, token.Coin{ChainID: s.ChainID})
	return err != nil || !mark.Ran.IsZero()
}

func (s *Settler) unused(ctx context.Context) bool {
	wallets, err := s.Store.Wallets(ctx, s.Coin())
	return err == nil && !slices.ContainsFunc(wallets, func(w wallet.Registration) bool { return w.Opened })
}

type run struct {
	by       string
	began    time.Time
	compared *sync.Map         // the wallet.IDs that it has compared with the chain; nil: it skips idle wallets
	memories sync.Map          // a memory of the last round by wallet.ID
	known    *store.Comparison // nil before the first read, and after a failed write
	changed  bool              // known.Silent is not stored yet
	held     bool              // the tables may lack payments of the rail
	patient  bool              // the next round waits for every node
	resting  bool              // the next round ends the claims on resting wallets: no wallet was busy
	waited   time.Duration     // the longest that a call of the last round waited at a node's rate limit
}

// releaseClaims ends a run's claims when its time is over, and stores the progress of its last round.
// So the next run finds the wallets free. A crash leaves claims that expire.
func (s *Settler) releaseClaims(ctx context.Context, r *run) error {
	wallets, err := s.Store.Wallets(ctx, s.Coin())
	if err != nil {
		return fmt.Errorf("listing wallets: %w", err)
	}
	var errs []error
	now := s.Now()
	for _, w := range wallets.Working(true) {
		var seen *wallet.Progress
		if m, ok := r.memories.Load(w.ID); ok {
			seen = m.(memory).seen
		}
		if _, err := s.Store.Claim(ctx, w.ID, r.by, now, now, seen); err != nil {
			errs = append(errs, fmt.Errorf("ending the claim on %s: %w", w.Address, err))
		}
	}
	return errors.Join(errs...)
}

// storeComparison stores the run's comparison with the chain. New processes rely on it: they need not compare every
// wallet again, and know since when nodes are silent. After a crash before the write they compare the wallets
// themselves.
func (s *Settler) storeComparison(ctx context.Context, r *run) {
	if r.known == nil {
		return
	}
	for node, since := range r.known.Silent {
		s.Log.WarnContext(ctx, "node is silent", "node", node, "since", since, "left_out_after", s.SilentAfter.String())
	}
	err := s.Store.SetCompared(ctx, s.Coin(), *r.known)
	if r.known.Revision, r.changed = r.known.Revision+1, false; err != nil {
		s.Log.WarnContext(ctx, "comparison not stored", "err", err)
		r.known = nil // the next round reads it
	}
}

// short reports whether the run has less time left than need plus closing.
func (s *Settler) short(ctx context.Context, need time.Duration) bool {
	if ctx.Err() != nil {
		return true
	}
	deadline, ok := ctx.Deadline()
	return ok && deadline.Sub(s.Now()) < need+closing
}

// age returns the time since at by our clock. A time further ahead than store.Skew was written by a wrong clock, and
// counts as very long ago: acting early must be as safe as acting late.
func (s *Settler) age(at time.Time) time.Duration {
	age := s.Now().Sub(at)
	if age < -store.Skew {
		return math.MaxInt64
	}
	return age
}

// abreast calls do for every item, at most width at once, and returns all their errors when all calls have returned.
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

// async calls get in a goroutine, and returns a function that waits for its result.
func async[T any](get func() T) func() T {
	done := make(chan struct{})
	var result T
	go func() {
		defer close(done)
		result = get()
	}()
	return func() T {
		<-done
		return result
	}
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
