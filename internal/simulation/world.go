// Package simulation is the test bed of dispatch and settlement: a whole
// deployment in one process and one synctest bubble, in which every effect can
// fail in every way, and a judge of what came of it. The chain in it is fake:
// it knows no EVM and no signatures, only what payments can tell apart.
//
// Begin with World (what there is), effect (how it fails), Simulate (chance
// decides), Story (every fault in every place), Stage (scenarios) and judge.
package simulation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"remit/internal/chain"
	"remit/internal/dispatch"
	"remit/internal/interpose"
	"remit/internal/memory"
	"remit/internal/settlement"
	"remit/internal/stack"
	"remit/internal/token"
	"remit/internal/webhook"
)

const (
	blockTime = 12 * time.Second // as Ethereum's
	lambda    = 29 * time.Second // how long a handler lives
	minute    = 60 * time.Second // between the starts of runs
	runTime   = 55 * time.Second // how long a run lives
	patience  = 35 * time.Second // how long a client waits for an answer
)

// A Setup says what a World is made of.
type Setup struct {
	Wallets          int
	Nodes            int
	Instances        int // processes that serve requests
	ConfirmationRule chain.ConfirmationRule
	Depth            uint64       // no reorg goes deeper
	Window           uint64       // payments in flight per wallet
	Coins            uint64       // what each wallet has of the token
	Ether            uint64       // and of wei, in thousands of millions
	Daily            token.Amount // a merchant's day; zero: no limit
	FeeLimit         token.Amount
	ReservationAge   time.Duration   // when runs finish a reservation; zero: 45 seconds
	Skews            []time.Duration // how far the clocks of instances and runs are off, in turn
}

// A World is a whole deployment in a synctest bubble: tables, a chain with its
// nodes, processes that serve requests, runs of check-receipts, and clients.
// All that any of them does outside its own memory is an effect, and effects
// happen one at a time, as its owner lets them.
type World struct {
	Setup
	Store  *memory.Payments
	Chain  *Chain
	Keys   *Keys
	Trace  func(line string) // nil: no trace
	judge  judge
	desk   desk
	root   context.Context
	cancel context.CancelFunc
	start  time.Time
	ports  *interpose.Store
	nodes  chain.Nodes

	instances []instance
	runs      int  // started
	made      int  // instances ever made
	wrong     bool // some clocks were

	mu      sync.Mutex
	actors  []*actor
	hinted  bool // somebody asked for a run
	reports []settlement.Report
}

var coin = token.Token{Symbol: "USDC", Decimals: 6, Contract: token.Address{0: 0xc0, 19: 0xc0}}

const chainID = 84532

// Wallet is the address of the n-th wallet.
func Wallet(n int) token.Address { return token.Address{0: 0xaa, 19: byte(n)} }

// NewWorld returns a World at rest. Close it.
func NewWorld(setup Setup) *World {
	w := &World{Setup: setup, Store: memory.NewPayments(), Keys: &Keys{}, start: time.Now()}
	w.root, w.cancel = context.WithCancel(context.Background())
	w.desk.over = make(chan struct{})
	w.Chain = NewChain(chainID, coin.Contract, setup.Depth, setup.Nodes)
	for i := range setup.Wallets {
		w.Keys.Add(Wallet(i))
		ether, err := token.Units(setup.Ether).Times(1_000_000_000)
		if err != nil {
			panic(err)
		}
		w.Chain.Fund(Wallet(i), token.Units(setup.Coins), ether)
	}
	for _, n := range w.Chain.Nodes {
		w.nodes = append(w.nodes, newRPC(&w.desk, n, &w.judge))
	}
	w.judge.init(w)
	w.ports = &interpose.Store{Store: recorder{w.Store, &w.judge}, Around: w.desk.around}
	for range setup.Instances {
		w.instances = append(w.instances, w.newInstance())
	}
	return w
}

// Close ends everybody who is still there, so that the bubble can end.
func (w *World) Close() {
	w.cancel()
	close(w.desk.over)
}

// skew is how far the n-th clock is off.
func (w *World) skew(n int) time.Duration {
	if len(w.Skews) == 0 {
		return 0
	}
	return w.Skews[n%len(w.Skews)]
}

func (w *World) clockOf(n int) func() time.Time {
	off := w.skew(n)
	return func() time.Time { return time.Now().Add(off) }
}

// skewed is a context that tells its deadline by a clock that is off, as the
// process does that made it.
type skewed struct {
	context.Context
	off time.Duration
}

// Deadline implements context.Context.
func (s skewed) Deadline() (time.Time, bool) {
	deadline, ok := s.Context.Deadline()
	return deadline.Add(s.off), ok
}

// An instance is a process that serves requests.
type instance struct {
	*dispatch.Dispatcher
	off time.Duration
}

// Restart replaces an instance by a new process.
func (w *World) Restart(i int) { w.instances[i] = w.newInstance() }

func (w *World) newInstance() instance {
	w.made++
	n := w.made
	return instance{off: w.skew(n), Dispatcher: dispatch.New(stack.Config{
		ChainID: chainID, Token: coin, Network: "simulated", Window: w.Window, Daily: w.Daily, FeeLimit: w.FeeLimit,
		BlockTime: blockTime, ConfirmationRule: w.ConfirmationRule,
	}, dispatch.Parts{
		Store: w.ports, Keys: w.Keys, Nodes: w.nodes, Hints: (*hints)(w),
		Log: slog.New(slog.DiscardHandler), Now: w.clockOf(n), Random: noise{},
		Draw: func(max int) int { return int(time.Since(w.start)/time.Millisecond+time.Duration(n)) % max },
	})}
}

// noise is what ids without a key are made of: the clients here all send keys.
type noise struct{}

func (noise) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// hints are a dispatch.Hinter.
type hints World

// Hint implements dispatch.Hinter.
func (h *hints) Hint(ctx context.Context) error {
	_, err := effect(ctx, &h.desk, "Hint", "", func(context.Context) (struct{}, error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.hinted = true
		return struct{}{}, nil
	})
	return err
}

// events are a settlement.Events.
type events World

// Publish implements settlement.Events.
func (e *events) Publish(ctx context.Context, ev webhook.Event) error {
	_, err := effect(ctx, &e.desk, "Publish", ev.ID, func(context.Context) (struct{}, error) {
		e.judge.announced(ev.Merchant, ev.Mode, ev.ID, ev.Type, ev.Body)
		return struct{}{}, nil
	})
	return err
}

// actor returns a context of somebody new.
func (w *World) actor(name string, life time.Duration) (context.Context, context.CancelFunc, *actor) {
	a := &actor{name: name}
	w.mu.Lock()
	w.actors = append(w.actors, a)
	w.mu.Unlock()
	ctx := context.WithValue(w.root, actorKey{}, a)
	if life == 0 {
		life = 1000 * time.Hour
	}
	ctx, a.cancel = context.WithTimeout(ctx, life)
	return ctx, a.cancel, a
}

// StartRun starts a run of check-receipts and returns its name.
func (w *World) StartRun() string {
	w.runs++
	off := w.skew(w.runs)
	name := fmt.Sprintf("run%d", w.runs)
	ctx, cancel, a := w.actor(name, runTime)
	s := settlement.New(stack.Config{
		ChainID: chainID, Token: coin, Window: w.Window, FeeLimit: w.FeeLimit, ConfirmationRule: w.ConfirmationRule,
		BlockTime: blockTime, ReservationAge: cmp.Or(w.ReservationAge, reservationAge), BumpAfter: bumpAfter,
	}, settlement.Parts{
		Store: w.ports, Keys: w.Keys, Nodes: w.nodes, Events: (*events)(w),
		Log: slog.New(slog.DiscardHandler), Now: w.clockOf(w.runs), Wait: w.wait,
	})
	w.trace(name, "starts")
	go func() {
		defer a.ended.Store(true)
		defer cancel()
		report, err := s.Run(skewed{ctx, off}, name)
		w.mu.Lock()
		w.reports = append(w.reports, report)
		w.mu.Unlock()
		if !errors.Is(err, errOver) {
			w.trace(name, fmt.Sprintf("ends, with errors: %t", err != nil))
		}
	}()
	return name
}

const (
	reservationAge = 45 * time.Second
	bumpAfter      = 60 * time.Second
)

func (w *World) wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	case <-w.desk.over:
	}
}

func (w *World) trace(who, what string) {
	if w.Trace != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.Trace(fmt.Sprintf("%9.3fs %-8s %s", time.Since(w.start).Seconds(), who, what))
	}
}
