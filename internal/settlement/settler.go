// Package settlement takes payments from broadcast to final: it finishes what
// a crashed handler left, learns from the nodes what was mined, announces it,
// and keeps the rest alive. It is what check-receipts does. Runs may overlap
// or be killed anywhere: every write is conditional and every step may be
// repeated.
package settlement

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"remit/internal/chain"
	"remit/internal/token"
	"remit/internal/wallet"
)

// Config is what a stack decides once.
type Config struct {
	ChainID          uint64
	Token            token.Token
	Window           uint64       // payments in flight per wallet
	FeeLimit         token.Amount // wei per gas, the most a fee cap may be; zero: none
	ConfirmationRule chain.ConfirmationRule
	BlockTime        time.Duration // how long a round waits for the next
	ReservationAge   time.Duration // a reservation older than this is finished here; longer than a handler lives
	BumpAfter        time.Duration // how long the lowest nonce may wait before its fees are raised
}

const (
	// claim is how long a run's claim on a wallet lasts. Every round
	// renews it.
	claimTime = 15 * time.Second
	// closing is how much of a run's time is kept for ending cleanly.
	closing = 5 * time.Second
	// width bounds how much of one kind is done at once.
	width = 16
	// skew is how far the clocks of two hosts may be apart before one is not
	// believed. Whatever relies on a time written by another host must be as
	// safe when done early, so that a wrong clock delays nothing.
	skew = 5 * time.Second
)

// Events announces final payments to whoever subscribed to them.
type Events interface {
	// Announce stores and queues an event's deliveries, or returns an error
	// and will be called again with the same event.
	Announce(ctx context.Context, merchantID, mode, eventID, eventType string, body []byte) error
}

// Parts are what a Settler works with.
type Parts struct {
	Store  Store
	Keys   wallet.Keys
	Nodes  chain.Nodes
	Events Events
	Log    *slog.Logger
	Now    func() time.Time
	Wait   func(ctx context.Context, d time.Duration) // sleeps, or returns early when ctx ends
}

// A Settler settles the payments of one chain.
type Settler struct {
	Config
	Parts
}

// New returns a settler.
func New(config Config, parts Parts) *Settler { return &Settler{config, parts} }

// Run settles until nothing is pending or its time is over, going round about
// once a block. by names the run in its claims on wallets. The report says
// what was done even when an error says what was not in the last round: a
// wallet that fails does not hold up the others, and is tried again.
func (s *Settler) Run(ctx context.Context, by string) (Report, error) {
	total := Report{}
	patient := true
	for first := true; ; first = false {
		round, err := s.Round(ctx, by, first)
		total.next(round)
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
			return total, errors.Join(err, s.yield(ctx, by))
		}
		s.Wait(ctx, pause)
	}
}

// yield ends the claims of a run whose time is over, so that the next one finds
// the wallets free. A crash leaves claims that end by themselves.
func (s *Settler) yield(ctx context.Context, by string) error {
	ids, err := s.Store.Wallets(ctx, s.ChainID)
	if err != nil {
		return fmt.Errorf("listing wallets: %w", err)
	}
	var errs []error
	now := s.Now()
	for _, id := range ids {
		if _, err := s.Store.Claim(ctx, id, by, now, now); err != nil {
			errs = append(errs, fmt.Errorf("leaving wallet %s: %w", id.Address, err))
		}
	}
	return errors.Join(errs...)
}

// Round passes over every wallet once. An idle wallet is looked at only when
// idle is true.
func (s *Settler) Round(ctx context.Context, by string, idle bool) (Report, error) {
	ids, err := s.Store.Wallets(ctx, s.ChainID)
	if err != nil {
		return Report{}, fmt.Errorf("listing wallets: %w", err)
	}
	var mu sync.Mutex
	var report Report
	var errs []error
	spread(ids, func(id wallet.ID) {
		pass, err := s.pass(ctx, by, id, idle)
		mu.Lock()
		defer mu.Unlock()
		report.add(pass)
		if err != nil {
			errs = append(errs, fmt.Errorf("settling wallet %s: %w", id.Address, err))
		}
	})
	return report, errors.Join(errs...)
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

// spread calls do for every item, at most width at once, and returns when all
// are done.
func spread[T any](items []T, do func(T)) {
	if len(items) == 1 {
		do(items[0])
		return
	}
	var wg sync.WaitGroup
	pendingTxs := make(chan struct{}, width)
	for _, item := range items {
		pendingTxs <- struct{}{}
		wg.Go(func() {
			defer func() { <-pendingTxs }()
			do(item)
		})
	}
	wg.Wait()
}
