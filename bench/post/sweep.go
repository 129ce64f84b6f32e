// Package post measures POST /send-payment: how long it takes and how much of
// it goes through, near and far from its services, beside the reference
// implementation on the same chain.
package post

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"remit/bench/reference"
	"remit/bench/rig"
	"remit/internal/ethrpc"
	"remit/internal/memory"
)

var (
	far  = rig.Delays{Store: 4 * time.Millisecond, RPC: 50 * time.Millisecond}
	near = rig.Delays{}
)

// Say tells progress, a line a time.
type Say func(format string, args ...any)

// A plan says how much is measured.
type plan struct {
	length  time.Duration // of each load
	clients []int
	wallets []int
	say     Say
}

// errUnclean reports a run whose figures say nothing: something failed in it.
var errUnclean = errors.New("the load did not go through")

// errHole reports nonces that were given out and not mined.
var errHole = errors.New("a nonce hole")

// A sweep is every load at one distance.
type sweep struct {
	delays    rig.Delays
	ours      map[int][]rig.Run // by wallets, in the order of plan.clients
	reference []rig.Run
	calls     map[string]int // store calls of one load with 4 wallets
	requests  int            // to the node, of the same
	paid      int            // payments of the same
}

// run measures all loads at one distance. Ours and the reference take turns,
// so that what else the machine does befalls both.
func (p plan) run(ctx context.Context, c *rig.Chain, delays rig.Delays) (*sweep, error) {
	s := &sweep{delays: delays, ours: map[int][]rig.Run{}}
	for _, clients := range p.clients {
		run, err := p.reference(ctx, c, delays, clients)
		if err != nil {
			return nil, err
		}
		s.reference = append(s.reference, run)
		line := fmt.Sprintf("store, RPC %s away, %3d clients: reference %.0f/s", delays, clients, run.PerSecond())
		for _, wallets := range p.wallets {
			run, err := p.ours(ctx, c, s, wallets, clients)
			if err != nil {
				return nil, err
			}
			s.ours[wallets] = append(s.ours[wallets], run)
			line += fmt.Sprintf(", %d wallets %.0f/s", wallets, run.PerSecond())
		}
		p.say("%s", line)
	}
	return s, nil
}

// ours loads Remit over an empty store, and checks that every nonce that was
// given out is mined.
func (p plan) ours(ctx context.Context, c *rig.Chain, s *sweep, wallets, clients int) (rig.Run, error) {
	paying := c.Wallets()[1 : 1+wallets] // the first is the reference's
	before, err := c.Mined(ctx, paying)
	if err != nil {
		return rig.Run{}, err
	}
	store := memory.NewPayments()
	stack, err := rig.NewStack(c, paying, store, s.delays)
	if err != nil {
		return rig.Run{}, err
	}
	if status, body := rig.Pay(ctx, stack.Handler, "warm", 999); status != http.StatusCreated { // connections, first sight of the wallets
		return rig.Run{}, fmt.Errorf("%w: %d %s", errUnclean, status, body)
	}
	stack.Calls.Take()
	stack.Wire.Take()
	run := rig.Load(ctx, stack.Handler, clients, p.length)
	if wallets == 4 && clients == p.clients[0] {
		s.calls, s.requests, s.paid = stack.Calls.Take(), stack.Wire.Take(), run.Paid
	}
	if run.Failed > 0 {
		return run, fmt.Errorf("%w: %d of %d, such as %s", errUnclean, run.Failed, run.Failed+run.Paid, run.Why)
	}
	want := before + uint64(run.Paid) + 1
	if err := c.Await(ctx, paying, want); err != nil {
		return run, fmt.Errorf("%w: %w", errHole, err)
	}
	if after, err := c.Mined(ctx, paying); err != nil || after != want {
		return run, fmt.Errorf("%w: %d transactions are mined, want %d: %w", errHole, after, want, err)
	}
	return run, nil
}

// reference loads the reference implementation. Some of its payments fail: a
// node's count of pending transactions lags behind what it has just taken, and
// the same nonce is used again. They do not count.
func (p plan) reference(ctx context.Context, c *rig.Chain, delays rig.Delays, clients int) (rig.Run, error) {
	paying := c.Wallets()[:1]
	before, err := c.Mined(ctx, paying)
	if err != nil {
		return rig.Run{}, err
	}
	var mu sync.Mutex
	saved := map[string]reference.Payment{}
	save := func(r reference.Payment) {
		if delays.Store > 0 {
			time.Sleep(delays.Store)
		}
		mu.Lock()
		defer mu.Unlock()
		saved[r.Key] = r
	}
	wire := &rig.Wire{Next: ethrpc.NewTransport(), Delay: delays.RPC}
	payer, err := reference.New(ctx, c.URL(), wire, c.Token().Contract, paying[0].Key, save)
	if err != nil {
		return rig.Run{}, err
	}
	rig.Pay(ctx, payer, "warm", 999)
	run := rig.Load(ctx, payer, clients, p.length)
	if run.Paid == 0 {
		return run, fmt.Errorf("the reference: %w: %d failed, such as %s", errUnclean, run.Failed, run.Why)
	}
	return run, c.Await(ctx, paying, before+uint64(run.Paid)+1)
}
