// Package settle measures check-receipts: what a look at ten thousand pending
// payments costs when none, some or all of them were mined since the last, and
// how long after its block a merchant is told.
package settle

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"time"

	"remit/bench/rig"
	"remit/internal/memory"
	"remit/internal/settlement"
	"remit/internal/stack"
	"remit/internal/wallet"
	"remit/internal/webhook"
)

// Say tells progress, a line a time.
type Say func(format string, args ...any)

// A bed is a chain, a stack that has sent payments, and a settler.
type bed struct {
	chain   *rig.Chain
	store   *memory.Payments // as it is, for looking
	stack   *rig.Stack
	settler *settlement.Settler
	queue   *queue
}

// open makes a bed whose chain stands still.
func open(ctx context.Context, wallets int, d rig.Delays) (*bed, error) {
	chain, err := rig.StartChain(ctx, wallets)
	if err != nil {
		return nil, err
	}
	b := &bed{chain: chain, store: memory.NewPayments(), queue: &queue{}}
	if b.stack, err = rig.NewStack(chain, chain.Wallets(), b.store, d); err != nil {
		return nil, err
	}
	keys, err := rig.Keys(chain.Wallets())
	if err != nil {
		return nil, err
	}
	b.settler = settlement.New(stack.Config{
		ChainID: chain.ID(), Token: chain.Token(), Window: rig.Window, ConfirmationRule: rig.ConfirmationRule, BlockTime: rig.BlockTime,
		ReservationAge: 45 * time.Second, BumpAfter: time.Hour,
	}, settlement.Parts{
		Store: b.stack.Store, Keys: keys, Nodes: b.stack.Nodes,
		Events: webhook.NewPublisher(subscription{}, b.queue), Log: slog.New(slog.DiscardHandler), Now: time.Now, Wait: wait,
	})
	return b, nil
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// A subscription is one endpoint that wants everything. What is stored for it
// is dropped: no delivery is made here.
type subscription struct{}

// Endpoints implements webhook.PublisherStore.
func (subscription) Endpoints(_ context.Context, o webhook.Owner) ([]webhook.Endpoint, error) {
	return []webhook.Endpoint{{Owner: o, ID: "we_bench", Status: webhook.Enabled}}, nil
}

// AddDeliveries implements webhook.PublisherStore.
func (subscription) AddDeliveries(context.Context, []webhook.Delivery) error { return nil }

// A queue notes when each job was made.
type queue struct {
	mu sync.Mutex
	at []time.Time
}

// Enqueue implements webhook.Queue.
func (q *queue) Enqueue(context.Context, string, time.Duration) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.at = append(q.at, time.Now())
	return nil
}

// take returns the times and begins anew.
func (q *queue) take() []time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := q.at
	q.at = nil
	return at
}

// pending transactions returns what is pending, lowest nonces of all wallets first.
func (b *bed) pendingTxs(ctx context.Context) ([]wallet.PendingTx, error) {
	var all []wallet.PendingTx
	for _, w := range b.chain.Wallets() {
		pendingTxs, _, err := b.store.PendingTxs(ctx, wallet.ID{ChainID: b.chain.ID(), Address: w.Address})
		if err != nil {
			return nil, err
		}
		all = append(all, pendingTxs...)
	}
	slices.SortStableFunc(all, func(x, y wallet.PendingTx) int { return int(x.Nonce) - int(y.Nonce) })
	return all, nil
}

// perBlock is how many payments go into one block: below its gas limit.
const perBlock = 2500

// mine mines the first n pending payments for good.
func (b *bed) mine(ctx context.Context, n int) error {
	pending, err := b.pendingTxs(ctx)
	if err != nil {
		return err
	}
	for chunk := range slices.Chunk(pending[:n], perBlock) {
		var raw [][]byte
		for _, s := range chunk {
			raw = append(raw, s.Raw)
		}
		if err := b.chain.MineExactly(raw...); err != nil {
			return err
		}
	}
	return b.chain.MineExactly() // finality
}

// A pass is one round over all wallets, and what it cost.
type pass struct {
	mined, settled  int
	took            time.Duration
	requests        int            // to the node
	calls           map[string]int // of the store
	allocated, peak float64        // MB: in all, and at once beyond what there was
	announced       []float64      // seconds from the begin of the pass to each event queued
}

// round makes one pass after mined payments were mined.
func (b *bed) round(ctx context.Context, mined int) (pass, error) {
	b.stack.Calls.Take()
	b.stack.Wire.Take()
	b.queue.take()
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	peak := watchHeap(ctx, before.HeapAlloc)
	begin := time.Now()
	report, err := b.settler.Round(ctx, "bench", true)
	p := pass{mined: mined, took: time.Since(begin), settled: report.Confirmed + report.Failed}
	p.peak = float64(peak()) / 1e6
	runtime.ReadMemStats(&after)
	p.allocated = float64(after.TotalAlloc-before.TotalAlloc) / 1e6
	p.calls, p.requests = b.stack.Calls.Take(), b.stack.Wire.Take()
	for _, at := range b.queue.take() {
		p.announced = append(p.announced, at.Sub(begin).Seconds())
	}
	if err == nil && p.settled != mined {
		err = fmt.Errorf("%d of %d mined payments were settled", p.settled, mined)
	}
	return p, err
}

// watchHeap samples the heap until the returned function is called, which
// returns how far it grew beyond base.
func watchHeap(ctx context.Context, base uint64) func() uint64 {
	ctx, cancel := context.WithCancel(ctx)
	highest := make(chan uint64)
	go func() {
		top := base
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			top = max(top, m.HeapAlloc)
			select {
			case <-ctx.Done():
				highest <- top - base
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}()
	return func() uint64 {
		cancel()
		return <-highest
	}
}
