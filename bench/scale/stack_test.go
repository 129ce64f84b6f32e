// Package scale_test runs the real engines, dispatch and settlement, under the limits of
// AWS, of nodes and of chains, in virtual time (testing/synctest). A load may be scaled
// down: so many times fewer payments a second on so many times fewer wallets and
// merchants, under limits of the account, of the table and of the chain that are so many
// times lower, while those of a wallet and of a merchant stay.
package scale_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"remit/internal/chain"
	"remit/internal/chains"
	"remit/internal/dispatch"
	"remit/internal/interpose"
	"remit/internal/payment"
	"remit/internal/plan"
	"remit/internal/settings"
	"remit/internal/settlement"
	"remit/internal/simulation/fakechain"
	"remit/internal/stack"
	"remit/internal/store"
	"remit/internal/token"
	"remit/internal/wallet"
	"remit/internal/webhook"
)

// limits are those of a scaled stack: units, requests, environments, calls and gas.
type limits struct {
	api, environments, burst float64 // requests a second of API Gateway; of Lambda
	writes, reads, fresh     float64 // of the table; fresh is what a new one takes, 0 for one that is not
	wallet, list, endpoint   float64 // of a partition
	settle                   float64 // cores of check-receipts
	batches                  float64 // of webhooks at once
	calls                    float64 // of a node a second; 0: any number
	gas                      float64 // of a block
	depth, epoch             uint64  // blocks until one may be final, and those that become final at once
	pool                     int     // transactions of a sender that a node holds
}

// A run is one load and how it is simulated.
type run struct {
	plan.Load
	scale   float64       // how many times smaller than the load
	length  time.Duration // of the load
	buckets int           // of a merchant's list
	asIs    bool          // with the quotas of a new account and the template's parameters; else with those that the plan asks for
	calls   float64       // of a node a second; 0: any number
	burst   bool          // all but the fifth part in the middle is a tenth of the rate
	fresh   bool          // the table is new
	crowded bool          // half of a wallet's window is the merchant cap, no round settles for the first two minutes, and in the middle every wallet is topped up
	store   store.Store   // of the payments; nil: in memory
	nodes   int           // of several providers, the first of which is lost for the fifth part in the middle; 0: one, which is not
	down    bool          // the first of the nodes is lost from the beginning to the end
	silent  time.Duration // stack.Config.SilentAfter
}

// limited returns the limits of a run. They are the plan's walls: there is one place for
// each number.
func (r run) limited(block, merchants, wallets float64) limits {
	limit := map[string]float64{}
	for _, w := range r.Walls() {
		if limit[w.Name] = w.Limit; !r.asIs && w.Raise != "" {
			limit[w.Name] = w.Needed(r.Rate)
		}
	}
	l := limits{
		api:          min(limit["the API's own rate"], limit["the account's rate at API Gateway"]) / r.scale,
		environments: limit["the account's concurrency"] / r.scale, burst: plan.BurstEnvironments / r.scale,
		writes: limit["write units of a table"] / r.scale, reads: limit["read units of a table"] / r.scale,
		wallet: plan.PartitionWrites * r.Load.Wallets / wallets / r.scale, list: plan.PartitionWrites * cmp.Or(r.Merchants, 1) / merchants / r.scale,
		settle:  limit["the processor and the memory of check-receipts, in MB"] / 1024 / plan.CoreGB / r.scale,
		batches: math.Ceil(limit["batches of webhooks at once"] / r.scale),
		calls:   r.calls / r.scale, gas: r.Chain.BlockGas / r.scale, depth: uint64((r.Chain.FinalSeconds - r.Chain.EpochSeconds/2) / block), epoch: max(1, uint64(r.Chain.EpochSeconds/block)), pool: int(r.Chain.Pool),
	}
	l.endpoint = l.list * cmp.Or(r.Endpoints, 1)
	if r.fresh {
		l.fresh = plan.NewTableWrites / r.scale
	}
	return l
}

// An outcome is what became of a run's payments. Rates and counts are of the load as it
// is, not scaled down.
type outcome struct {
	asked, made, refused int
	posts, confirmed     []float64 // seconds of each POST that made its payment, but for the first quarter of the load, and from its time until its event
	delivered            []float64 // seconds from the confirmation until a merchant's endpoint has answered
	twice, lost          int
	writes, reads, calls float64 // of a payment
	wall                 string  // that refused or held up most; "" if none did
	walls                map[string]int
	failed               []error // of runs of check-receipts, and refusals but for a window or a merchant cap
	full, capped         int     // answers for a window and for a merchant cap
	unseen               int     // wallets whose top-up was not in the tables after a round
}

// quantile returns the value below which a share of the values is.
func quantile(values []float64, share float64) float64 {
	if len(values) == 0 {
		return 0
	}
	values = slices.Sorted(slices.Values(values))
	return values[int(share*float64(len(values)-1))]
}

// A service is one stack under a run.
type service struct {
	run
	limits
	config stack.Config
	tables *tables
	chain  *ledger
	nodes  chain.Nodes
	jobs   chan job // to deliver-webhook
	keys   *fakechain.Keys
	rng    *rand.Rand
	api    *bucket
	burst  *bucket // of environments
	core   *bucket
	hinted chan struct{}

	mu            sync.Mutex
	idle          []*dispatch.Dispatcher
	busy, all     float64
	outcome       outcome
	created       map[string]time.Time // of payments that are made and not confirmed, by event
	due           int                  // webhooks that are not delivered
	begun, loaded time.Time            // of the whole, and of the load
}

// simulate runs a load to its end, when every payment that was made is confirmed.
func (r run) simulate(t *testing.T) (o outcome) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { o = r.perform(t.Context()) })
	return o
}

// perform runs a load in whatever time there is.
func (r run) perform(ctx context.Context) outcome {
	s := newService(r)
	s.begun = time.Now()
	var clients sync.WaitGroup
	ctx, stop := context.WithCancel(ctx)
	var background sync.WaitGroup
	background.Go(func() { s.mine(ctx) })
	background.Go(func() { s.settle(ctx) })
	for range int(s.batches) {
		background.Go(func() { s.deliver(ctx) })
	}
	time.Sleep(5 * time.Second)
	if s.crowded {
		background.Go(func() {
			settlement.Sleep(ctx, s.length*3/4)
			s.topUp(ctx)
		})
	}
	s.load(ctx, &clients)
	clients.Wait()
	deadline := time.Now().Add(3*time.Duration(r.Chain.FinalSeconds)*time.Second + time.Hour)
	for s.waiting() > 0 && time.Now().Before(deadline) {
		time.Sleep(time.Second)
	}
	stop()
	background.Wait()
	return s.judge()
}

func newService(r run) *service {
	profile, _ := chains.Of(r.Chain.ID)
	config := profile.Complete(stack.Config{
		ChainID: r.Chain.ID, Token: token.Token{Symbol: "USDC", Decimals: 6, Contract: token.Address{0xc0}}, Network: "n",
		ConfirmationRule: chain.ConfirmationRule{Tag: "finalized"}, BumpAfter: time.Hour, SilentAfter: r.silent,
	})
	if !r.asIs {
		config.Own.Window = cmp.Or(r.Window, r.Chain.Window())
	}
	initial := settings.Default()
	if !r.crowded {
		initial.MerchantShare = 100
	}
	wallets, merchants := max(1, float64(int(r.Load.Wallets/r.scale))), max(1, float64(int(cmp.Or(r.Merchants, 1)/r.scale)))
	l := r.limited(profile.BlockTime.Seconds(), merchants, wallets)
	s := &service{
		run: r, limits: l, config: config, keys: &fakechain.Keys{}, rng: rand.New(rand.NewPCG(7, 7)),
		api: newBucket(l.api, 1), burst: newBucket(l.burst/plan.BurstSeconds, plan.BurstSeconds), core: newBucket(l.settle, 1), hinted: make(chan struct{}, 1), created: map[string]time.Time{}, jobs: make(chan job, 1<<20),
		tables: newTables(l, cmp.Or(r.buckets, plan.ListBuckets), r.store),
	}
	_ = s.tables.SetSettings(context.Background(), initial)
	var addresses []token.Address
	for n := range int(wallets) {
		a := token.Address{0: 0xaa, 18: byte(n >> 8), 19: byte(n)}
		addresses = append(addresses, a)
		s.keys.Add(a)
		id := wallet.ID{ChainID: config.ChainID, Address: a}
		_ = s.tables.Register(context.Background(), wallet.Registration{ID: id, State: wallet.Active, Key: wallet.InSecret})
	}
	s.chain = newLedger(config.Token.Contract, l, addresses)
	for n := range max(1, r.nodes) {
		s.nodes = append(s.nodes, &node{ledger: s.chain, name: fmt.Sprint("node ", n)})
	}
	s.Merchants = merchants
	return s
}

// mine makes blocks.
func (s *service) mine(ctx context.Context) {
	profile, _ := chains.Of(s.Chain.ID)
	for ctx.Err() == nil {
		settlement.Sleep(ctx, profile.BlockTime)
		s.chain.mine()
	}
}

// settle is check-receipts: a run each minute, and when one is asked for. Each payment that
// it reads or ends takes a part of its processor.
func (s *service) settle(ctx context.Context) {
	around := func(ctx context.Context, call interpose.Call, apply func(context.Context)) error {
		work := map[string]float64{"Finish": plan.SettleSeconds}[call.Op]
		if call.Op == "PendingTxs" {
			work = plan.PendingSeconds * s.tables.pendingFrom(call.Args)
		}
		s.mu.Lock()
		wait := s.core.owe(work)
		s.mu.Unlock()
		time.Sleep(wait)
		return s.tables.around(ctx, call, apply)
	}
	if s.crowded {
		settlement.Sleep(ctx, 2*time.Minute)
	}
	for n := 0; ctx.Err() == nil; n++ {
		engine := settlement.New(s.config, settlement.Parts{
			Store: &interpose.Store{Store: s.tables.Store, Around: around}, Keys: s.keys, Nodes: s.nodes.Watch(time.Now, time.After),
			Events: s, Log: slog.New(slog.DiscardHandler), Now: time.Now,
		})
		of, end := context.WithTimeout(ctx, 55*time.Second)
		_, err := engine.Run(of, fmt.Sprint("run", n))
		end()
		if err != nil && ctx.Err() == nil {
			s.fail(fmt.Errorf("run %d: %w", n, err))
		}
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Second):
		case <-s.hinted:
		}
	}
}

// Hint implements dispatch.Hinter.
func (s *service) Hint(context.Context) error {
	select {
	case s.hinted <- struct{}{}:
	default:
	}
	return nil
}

// A job is a webhook that is stored and waits in the queue.
type job struct {
	log       string
	confirmed time.Time
}

// Publish implements settlement.Events: the delivery is stored in its endpoint's log, and
// queued.
func (s *service) Publish(_ context.Context, e webhook.Event) error {
	log := "log " + e.Merchant
	return s.write(log, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if at, waits := s.created[e.ID]; waits {
			s.outcome.confirmed = append(s.outcome.confirmed, time.Since(at).Seconds())
			delete(s.created, e.ID)
			s.due++
			s.jobs <- job{log, e.At}
		}
	})
}

// write writes a unit to an endpoint's log.
func (s *service) write(log string, apply func()) error {
	return s.tables.call("PutItem", units{own: 1}, func() string {
		s.tables.mu.Lock()
		defer s.tables.mu.Unlock()
		b := s.tables.partition(log, s.endpoint)
		if b.fill(); b.left < 1 {
			return "the log of one endpoint's webhooks"
		}
		b.left--
		return ""
	}, apply)
}

// deliver is deliver-webhook: it takes what waits, as much as a batch has, and posts it side
// by side to endpoints that answer as soon as the plan assumes. What cannot be recorded is
// in the queue again after a retry's time.
func (s *service) deliver(ctx context.Context) {
	for {
		var batch []job
		select {
		case <-ctx.Done():
			return
		case first := <-s.jobs:
			batch = append(batch, first)
		}
		for len(batch) < plan.WebhookBatch && len(s.jobs) > 0 {
			batch = append(batch, <-s.jobs)
		}
		var posts sync.WaitGroup
		for _, j := range batch {
			posts.Go(func() {
				time.Sleep(time.Duration((plan.StoreSeconds + plan.MerchantSeconds) * float64(time.Second)))
				after := time.Since(j.confirmed)
				if s.write(j.log, func() {}) != nil {
					time.AfterFunc(30*time.Second, func() { s.jobs <- j })
					return
				}
				s.mu.Lock()
				defer s.mu.Unlock()
				s.outcome.delivered, s.due = append(s.outcome.delivered, after.Seconds()), s.due-1
			})
		}
		posts.Wait()
	}
}

// load begins payments at random times, at the run's rate.
func (s *service) load(ctx context.Context, clients *sync.WaitGroup) {
	begin := time.Now()
	s.loaded = begin
	for n := 0; time.Since(begin) < s.length; n++ {
		rate := s.Rate / s.scale
		if part := float64(time.Since(begin)) / float64(s.length); s.run.burst && (part < 0.4 || part > 0.6) {
			rate /= 10
		}
		if s.run.nodes > 1 {
			part := float64(time.Since(begin)) / float64(s.length)
			s.nodes[0].(*node).lost.Store(s.run.down || part > 0.4 && part < 0.6)
		}
		time.Sleep(time.Duration(s.rng.ExpFloat64() / rate * float64(time.Second)))
		clients.Go(func() { s.pay(ctx, n) })
	}
}

// pay is a client: it asks again, under the same key, while the outcome is unknown.
func (s *service) pay(ctx context.Context, n int) {
	r := payment.Request{
		Merchant: fmt.Sprint("mer_", n%int(s.Merchants)), Mode: "live", IdempotencyKey: fmt.Sprint("key ", n),
		To: token.Address{0: 0xee, 18: byte(n >> 8), 19: byte(n)}, Amount: token.Units(1000),
	}
	for try := range 5 {
		begin := time.Now()
		p, err := s.post(ctx, r)
		s.mu.Lock()
		if try == 0 {
			s.outcome.asked++
		}
		if err == nil {
			s.outcome.made++
			if time.Since(s.loaded) > s.length/4 { // by then most environments have started
				s.outcome.posts = append(s.outcome.posts, time.Since(begin).Seconds())
			}
			s.created[payment.EventID(p.ID, webhook.PaymentConfirmed)] = begin
			s.mu.Unlock()
			return
		}
		switch {
		case errors.Is(err, dispatch.ErrTooMany):
			s.outcome.capped++
		case errors.Is(err, wallet.ErrCeiling):
			s.outcome.full++
		default:
			s.outcome.failed = append(s.outcome.failed, err)
		}
		final := errors.Is(err, dispatch.ErrUnavailable) || errors.Is(err, errWall) || try == 4
		if final {
			s.outcome.refused++
		}
		s.mu.Unlock()
		if final {
			return
		}
		time.Sleep(time.Second << try)
	}
}

func (s *service) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outcome.failed = append(s.outcome.failed, err)
}

// topUp doubles the coins of every wallet, and counts the wallets of which the tables do
// not know it after a block and a half: a round begins with each, and takes less than half.
func (s *service) topUp(ctx context.Context) {
	profile, _ := chains.Of(s.Chain.ID)
	s.chain.topUp()
	settlement.Sleep(ctx, profile.BlockTime*3/2)
	for _, sender := range s.chain.senders {
		w, err := s.tables.Wallet(ctx, wallet.ID{ChainID: s.config.ChainID, Address: sender.Address})
		if err != nil {
			s.fail(err)
		}
		if w.Balance.Less(token.Units(3 << 59)) {
			s.outcome.unseen++
		}
	}
}

// errWall is the refusal of a request before a function saw it.
var errWall = errors.New("throttled")

// post is POST /send-payment: the gateway, an environment of its own for as long as it
// takes, and the engine.
func (s *service) post(ctx context.Context, r payment.Request) (payment.Payment, error) {
	s.mu.Lock()
	met := func(wall string) (payment.Payment, error) {
		s.tables.mu.Lock()
		s.tables.throttled[wall]++
		s.tables.mu.Unlock()
		s.mu.Unlock()
		return payment.Payment{}, errWall
	}
	if s.api.fill(); s.api.left < 2 {
		return met("the API's rate")
	}
	s.api.left -= 2                                                                                                                       // and a GET
	if s.busy+1 > max(1, s.environments*plan.Measured.Post/(plan.Measured.Post+plan.Measured.Get+plan.Measured.Hook/plan.WebhookBatch)) { // the other functions have the rest
		return met("the account's concurrency")
	}
	cold := time.Duration(0)
	var d *dispatch.Dispatcher
	if len(s.idle) > 0 {
		d, s.idle = s.idle[len(s.idle)-1], s.idle[:len(s.idle)-1]
	} else {
		if s.burst.owe(1) > 0 && s.all > 0 {
			s.burst.left++
			return met("new environments of a function")
		}
		s.all++
		cold = 200 * time.Millisecond // an assumption: Lambda's own start, and an init of 6 ms (docs/performance.md)
		d = dispatch.New(s.config, dispatch.Parts{
			Store: &interpose.Store{Store: s.tables.Store, Around: s.tables.around}, Keys: s.keys, Nodes: s.nodes.Watch(time.Now, time.After),
			Hints: s, Log: slog.New(slog.DiscardHandler), Now: time.Now, Draw: rand.New(rand.NewPCG(1, uint64(s.all))).IntN,
		})
	}
	s.busy++
	s.mu.Unlock()
	time.Sleep(cold)
	of, end := context.WithTimeout(ctx, 29*time.Second)
	result, err := d.Send(of, r)
	end()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy--
	s.idle = append(s.idle, d)
	return result.Payment, err
}

// waiting returns how many payments are made and not confirmed, or without their webhook.
func (s *service) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.created) + s.due
}

// judge holds the tables against the chain's blocks.
func (s *service) judge() outcome {
	o, made := s.outcome, float64(max(1, s.outcome.made))
	o.walls = s.tables.throttled
	for _, times := range s.chain.mined {
		if times > 1 {
			o.twice++
		}
	}
	o.lost = len(s.created) + s.due
	// Rounds go on until the last payment is final: of theirs, only those under load count.
	looking := s.length.Seconds() / time.Since(s.begun).Seconds()
	o.writes = (s.tables.used.own + looking*s.tables.looks.own) / made
	o.reads = (s.tables.used.reads + looking*s.tables.looks.reads) / made
	o.calls = (s.chain.asked[ofPayment] + looking*s.chain.asked[ofRound]) / made
	most := 0
	for wall, n := range o.walls {
		if n > most {
			most, o.wall = n, wall
		}
	}
	switch many := o.refused > o.asked/100; {
	case float64(most) >= 0.1*made, many && most >= o.refused/2: // it held up, or refused, so many
	case many:
		o.wall = "the wallets' window"
	default:
		o.wall = ""
	}
	profile, _ := chains.Of(s.Chain.ID)
	if float64(s.chain.full) > max(2, 0.1*s.length.Seconds()/profile.BlockTime.Seconds()) {
		o.wall = "the gas of the chain's blocks"
	}
	return o
}
