package settle

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"remit/bench/rig"
	"remit/bench/stats"
	"remit/internal/memory"
	"remit/internal/webhook"
	"remit/internal/webhook/guard"
)

// A told payment, in seconds from its block becoming the head.
type latency struct {
	payments int
	toHook   []float64 // to the webhook's arrival at the merchant
}

// tell runs the whole way: payments at a steady rate, a chain that makes
// blocks, a settler that goes round once a block, and webhooks over HTTP.
func tell(ctx context.Context, d rig.Delays, rate int, length time.Duration) (*latency, error) {
	b, err := open(ctx, 4, d)
	if err != nil {
		return nil, err
	}
	defer func() { _ = b.chain.Close() }()
	hook, err := newHook(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = hook.server.Close() }()
	if err := b.deliverTo(ctx, hook); err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		for running.Err() == nil { // errors show as payments that are never told of
			_, _ = b.settler.Run(running, "bench")
			wait(running, 10*time.Millisecond)
		}
	})
	defer wg.Wait()
	defer stop()
	n := int(length.Seconds() * float64(rate))
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	var paying sync.WaitGroup
	for i := range n {
		<-tick.C
		paying.Go(func() { rig.Pay(ctx, b.stack.Handler, fmt.Sprint("told-", i), uint64(1000+i)) })
	}
	paying.Wait()
	for range 200 {
		if hook.count() >= n {
			break
		}
		wait(ctx, 50*time.Millisecond)
	}
	l := &latency{payments: n}
	for block, arrivals := range hook.byBlock() {
		for _, at := range arrivals {
			l.toHook = append(l.toHook, at.Sub(b.chain.MinedAt(block)).Seconds())
		}
	}
	if len(l.toHook) < n {
		return nil, fmt.Errorf("%d of %d webhooks arrived; p50 %.2f s", len(l.toHook), n, stats.Median(l.toHook))
	}
	return l, nil
}

// deliverTo makes the settler announce to an endpoint, and delivers at once.
func (b *bed) deliverTo(ctx context.Context, h *hook) error {
	hooks := memory.NewWebhooks()
	secret, err := webhook.MintSecret(zero{})
	if err != nil {
		return err
	}
	if err := hooks.AddEndpoint(ctx, webhook.Endpoint{Owner: webhook.Owner{Merchant: rig.Merchant, Mode: "test"}, ID: "we_bench", URL: h.url,
		Status: webhook.Enabled, Secret: secret, CreatedAt: time.Now(), EnabledAt: time.Now(), Version: 1}, webhook.EndpointLimit); err != nil {
		return err
	}
	jobs := &immediate{ctx: ctx}
	jobs.deliverer = webhook.NewDeliverer(hooks, jobs, guard.NewClient(true), webhook.NoMeter{}, time.Now, func() float64 { return 0.5 })
	b.settler.Events = webhook.NewPublisher(hooks, jobs)
	return nil
}

// zero is a source of secrets that need not be secret.
type zero struct{}

func (zero) Read(b []byte) (int, error) { return len(b), nil }

// immediate does every job as soon as it is made.
type immediate struct {
	ctx       context.Context
	deliverer *webhook.Deliverer
}

// Enqueue implements webhook.Queue.
func (q *immediate) Enqueue(_ context.Context, job string, delay time.Duration) error {
	time.AfterFunc(delay, func() {
		if err := q.deliverer.Deliver(q.ctx, job); err != nil {
			slog.Warn("delivering", "err", err)
		}
	})
	return nil
}

// A hook notes when each event arrived.
type hook struct {
	server *http.Server
	url    string

	mu     sync.Mutex
	blocks map[uint64][]time.Time
	n      int
}

func newHook(ctx context.Context) (*hook, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	h := &hook{url: "http://" + listener.Addr().String(), blocks: map[uint64][]time.Time{}}
	h.server = &http.Server{Handler: h}
	go func() { _ = h.server.Serve(listener) }()
	return h, nil
}

// ServeHTTP takes one event.
func (h *hook) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	at := time.Now()
	var event struct {
		Data struct {
			Block uint64 `json:"block_number"`
		} `json:"data"`
	}
	if json.NewDecoder(r.Body).Decode(&event) != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.blocks[event.Data.Block] = append(h.blocks[event.Data.Block], at)
	h.n++
}

func (h *hook) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.n
}

func (h *hook) byBlock() map[uint64][]time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.blocks
}
