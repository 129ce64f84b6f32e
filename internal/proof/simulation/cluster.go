// Package simulation tests dispatch and settlement: a whole deployment in one process and one bubble of fake time, in
// which every effect can fail in every way, and an oracle that checks the outcome against the invariants. README.md
// describes how a simulation runs.
package simulation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/dispatch"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/recovery"
	"github.com/remit-payouts/remit/internal/payments/settlement"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/simulation/fakechain"
	"github.com/remit-payouts/remit/internal/proof/simulation/oracle"
	"github.com/remit-payouts/remit/internal/proof/simulation/scheduler"
	"github.com/remit-payouts/remit/internal/sandbox/interpose"
	"github.com/remit-payouts/remit/internal/sandbox/memory"
)

const (
	blockTime   = 12 * time.Second // as Ethereum's
	handlerTime = 29 * time.Second // how long a handler lives
	runEvery    = 60 * time.Second // between the starts of runs
	runTime     = 55 * time.Second // how long a run lives
	patience    = 35 * time.Second // how long a client waits for an answer
	bumpAfter   = time.Minute      // a third of settlement.BumpAfter: more attempts in less time
)

// assets are those of the rails of a Cluster, in their order.
var assets = []settings.Rail{
	{ChainID: 84532, Token: token.Token{Symbol: "USDC", Decimals: 6, Contract: token.Address{0: 0xc0, 19: 0xc0}}, Network: "simulated"},
	{ChainID: 137, Token: token.Token{Symbol: "EURC", Decimals: 6, Contract: token.Address{0: 0xe0, 19: 0xe0}}, Network: "another"},
}

// firstWallet is the number of the first wallet of each rail after the first.
const firstWallet = 100

// quietFee is the base fee of the chain in quiet times, in wei per gas.
var quietFee = token.Units(100)

// A Setup holds the sizes and settings of a Cluster.
type Setup struct {
	Rails            int           // assets, each on a chain of its own; 0: one
	Wallets          int           // of each rail
	Remote           int           // of these, the first so many sign over the network, never alike
	Nodes            int           // of each rail
	Instances        int           // processes that serve requests
	SilentAfter      time.Duration // from which on a silent node does not count (stack.Config); 0: it does, always
	ConfirmationRule chain.ConfirmationRule
	Depth            uint64 // in blocks: no reorg goes deeper
	Epoch            uint64 // blocks that become final together (fakechain.Chain)
	Window           uint64 // payments in flight per wallet, the most that settings may allow
	Narrow           uint64 // the part of Window that they allow; 0: all
	MerchantCap      uint64 // of those, the most of one merchant; 0: any
	// Nonces from a wallet's count on that a recovery uses up; 0: 16, more than most seeds take.
	Spare          uint64
	Coins          uint64            // units of the token in each wallet
	Gwei           uint64            // gwei in each wallet
	Own            string            // the merchant who pays the first asset from its own wallets alone, once it has any; empty: none
	Refills        settings.Refills  // of a funding wallet beside the others; zero: there is none
	Daily          token.Amount      // limit of a merchant's day; zero: none
	Key            payment.KeyLimits // of the API key with which clients ask
	FeeLimit       token.Amount      // wei per gas; zero: none
	Pause          time.Duration     // between two rounds of a run; zero: a block
	ReservationAge time.Duration     // from which on runs finish a reservation; zero: settlement.ReservationAge
	Gas            fakechain.Rule    // how gas is paid; zero: in ether
	Bus            bool              // the operator has one for events
	Estimates      bool              // each transfer is estimated, as on chains whose calls are none (chains.Profile)
	Skews          []time.Duration   // by how much the clocks of instances and runs are wrong, in turn

	Liar    int             // the node that lies by Habit, and takes no time but by that
	Habit   fakechain.Habit // zero: no node lies
	Latency time.Duration   // that each request to the others takes, more or less; 0: an instant
	OneHost bool            // the host of the node at Liar is the next node's too
	Goal    oracle.Goal     // that the oracle holds beside the invariants
}

// A rail is an asset of a Cluster, with its chain, its nodes and the oracle that watches them.
type rail struct {
	settings.Rail
	Chain  *fakechain.Chain
	first  int // the number of its first wallet
	oracle *oracle.Oracle
	nodes  chain.Nodes
	liar   *fakechain.Liar // lies by its Habit, if any
	halted bool            // no blocks are made
}

func (r *rail) walletID(n int) wallet.ID {
	return wallet.ID{ChainID: r.ChainID, Address: fakechain.Wallet(r.first + n)}
}

// A Cluster is a whole deployment in a synctest bubble: tables, a chain with its nodes, instances that serve
// requests, runs of check-receipts, and clients. All that any of them does outside its own memory is an effect, and a
// policy lets effects happen one at a time.
type Cluster struct {
	Setup
	*rail // the first
	rails []*rail
	Store *memory.Payments
	Keys  *fakechain.Keys

	// Trace, if set, is called with a line for each thing that happens.
	Trace func(line string)

	keys      *keyService
	scheduler *scheduler.Scheduler
	start     time.Time
	store     *interpose.Store
	model     *acceptor
	instances []instance
	started   int              // runs
	processes int              // instances ever made
	skewed    bool             // some clocks were wrong
	mispriced bool             // some node said nonsense of the price of gas
	funding   int              // the wallet that refills the others
	operators int              // that have retired a wallet, or tried
	losses    int              // how often the tables were lost
	accepted  bool             // an operator has accepted that the chain went back below finality
	recovers  bool             // a loss has not been recovered from
	sends     bool             // the operator sends coins to wallets that lack them
	recovery  int              // recoveries ever started
	unlisted  []wallet.ID      // that recoveries have registered as draining
	releases  int              // runs of release-proposals
	proposes  bool             // merchants propose payments
	jobs      []*job           // in the queue, for the bus
	delivered int              // runs of deliver-webhook
	suspends  [2]time.Duration // from when until when the merchant of proposals is suspended

	mu      sync.Mutex
	hinted  bool // a handler asked for a run
	reports []settlement.Report
}

// NewCluster returns a Cluster at rest. Close it.
func NewCluster(setup Setup, trace func(line string)) *Cluster {
	setup.Spare = cmp.Or(setup.Spare, 16)
	c := &Cluster{Setup: setup, Store: memory.NewPayments(), Keys: &fakechain.Keys{}, Trace: trace,
		scheduler: scheduler.New(), start: time.Now()}
	c.keys = &keyService{Keys: c.Keys, around: c.scheduler.Around}
	for i, asset := range assets[:max(1, setup.Rails)] {
		r := &rail{Rail: asset, Chain: fakechain.New(asset.ChainID, asset.Token.Contract, setup.Depth, setup.Nodes), first: firstWallet * i}
		r.Chain.Epoch, r.Chain.Rule = setup.Epoch, setup.Gas
		c.rails = append(c.rails, r)
		for range setup.Wallets {
			c.addWallet(r)
		}
	}
	c.rail = c.rails[0]
	if setup.Refills != (settings.Refills{}) {
		c.funding = len(c.Chain.Funded())
		c.AddWallet()
		c.Chain.Fund(fakechain.Wallet(c.funding), token.Units(3*c.Coins), token.Units(2e12))
		_ = c.Store.SetState(context.Background(), c.walletID(c.funding), wallet.Active, wallet.Funding, time.Now())
	}
	limits := []payment.DailyLimit{setup.Key.Daily, {Amount: setup.Daily}}
	c.model = newAcceptor(c)
	for _, r := range c.rails {
		r.oracle = oracle.New(oracle.Config{Store: c.Store, Chain: r.Chain, Depth: c.Depth, Window: c.Window,
			MerchantCap: c.MerchantCap, Own: map[bool]string{true: setup.Own}[r == c.rail], Spare: c.Spare, Silent: c.SilentAfter > 0,
			Bus: c.Bus, Skew: slices.Max(append(slices.Clone(c.Skews), 0)), Limits: limits, Trace: c.trace,
			Refill: [2]token.Amount{setup.Refills.Token.Daily, setup.Refills.Ether.Daily}, Goal: setup.Goal})
		for i := range r.Chain.Nodes {
			r.nodes = append(r.nodes, c.node(r, i))
		}
	}
	c.store = &interpose.Store{Store: c.model, Around: func(ctx context.Context, call interpose.Call,
		apply func(context.Context)) error {
		asked := time.Now()
		by, ok := ctx.Value(requestKey{}).(request)
		if call.Op == "Reserve" && ctx.Err() == nil { // a request that is over asks in vain
			id, _, _ := strings.Cut(call.Args, " ")
			c.oracle.Releasing(payment.ID(id), scheduler.ActorOf(ctx), by.began)
		}
		return c.scheduler.Around(ctx, call, func(ctx context.Context) {
			if ok && call.Op == "Reserve" {
				id, _, _ := strings.Cut(call.Args, " ")
				late := !by.notAfter.IsZero() && asked.Unix() > by.notAfter.Unix()+1 // clocks count fractions
				c.at(by.order.Asset.ChainID).oracle.Reserving(payment.ID(id), by.began, by.maximum, late, func() { apply(ctx) })
			} else if ok && call.Op == "CreateGuarded" {
				c.oracle.Creating(by.order, func() { apply(ctx) })
			} else {
				apply(ctx)
			}
			c.oracle.Called(scheduler.ActorOf(ctx), "", call.Op, call.Args)
			for _, r := range c.rails {
				r.oracle.Stored(call.Op)
			}
		})
	}}
	c.Set(token.Amount{})
	for range setup.Instances {
		c.instances = append(c.instances, c.newInstance())
	}
	return c
}

// at returns the rail on a chain; 0: the first.
func (c *Cluster) at(chainID uint64) *rail {
	return c.rails[max(0, slices.IndexFunc(c.rails, func(r *rail) bool { return r.ChainID == chainID }))]
}

// AddWallet makes and registers one more wallet of the first rail, with coins and ether.
func (c *Cluster) AddWallet() { c.addWallet(c.rail) }

func (c *Cluster) addWallet(r *rail) {
	wei, _ := token.Units(c.Gwei).Times(1_000_000_000)
	n := len(r.Chain.Funded())
	id, key := r.walletID(n), wallet.InSecret
	c.Keys.Add(id.Address)
	if n < c.Remote {
		key = inService
	}
	_ = c.Store.Register(context.Background(), wallet.Registration{ID: id, Token: r.Token.Contract, State: wallet.Active, Key: key})
	r.Chain.Fund(id.Address, token.Units(c.Coins), wei)
}

// denyAge is how long a process may believe the operator's deny list that it has read.
const denyAge = 30 * time.Second

// Bar puts a recipient on the operator's deny list, or on the chain's.
func (c *Cluster) Bar(to token.Address, deny bool) {
	from := time.Now()
	if c.Chain.Listed[to] = c.Chain.Listed[to] || !deny; deny {
		_ = c.Store.Deny(context.Background(), store.Denial{To: to}) // in memory
		from = from.Add(denyAge)
	}
	for _, r := range c.rails {
		if deny || r.Chain == c.Chain {
			r.oracle.Bar(to, from)
		}
	}
	c.trace("chain", "%x is barred, by the deny list %t", to[18:], deny)
}

// startRetirement has an operator drain the n-th wallet of a rail, and retire it once all that it has signed has ended.
// The operator gives up after some minutes.
func (c *Cluster) startRetirement(r *rail, n int) {
	c.operators++
	ctx, actor := c.scheduler.Actor(fmt.Sprint("operator", c.operators), 0)
	s := settlement.New(c.config(r), settlement.Parts{Store: c.store, Nodes: r.nodes, Now: c.clock(c.operators)})
	go func() {
		defer actor.End()
		for range 12 {
			err := c.store.SetState(ctx, r.walletID(n), wallet.Active, wallet.Draining, s.Now())
			if err == nil || errors.Is(err, store.ErrChanged) {
				err = s.Retire(ctx, r.walletID(n), false)
			}
			if err == nil || ctx.Err() != nil {
				return
			}
			c.scheduler.Sleep(ctx, 20*time.Second)
		}
	}()
}

// StartAssignment has an operator drain the n-th wallet, and give it to a merchant once nothing is under way. The
// operator gives up after some minutes.
func (c *Cluster) StartAssignment(n int, merchant string) {
	c.operators++
	ctx, actor := c.scheduler.Actor(fmt.Sprint("operator", c.operators), 0)
	id, now := c.walletID(n), c.clock(c.operators)
	go func() {
		defer actor.End()
		c.scheduler.Sleep(ctx, 5*time.Second) // processes have read the registry by then
		for range 20 {
			err := c.store.SetState(ctx, id, wallet.Active, wallet.Draining, now())
			w, unread := c.store.Wallet(ctx, id)
			txs, unreadable, failed := c.store.PendingTxs(ctx, id, 0)
			idle := len(w.Reservations)+len(txs)+unreadable == 0
			if err = cmp.Or(err, unread, failed); err == nil && idle && !w.Suspect() {
				err = c.store.Assign(ctx, w, merchant, now())
			}
			if err == nil && idle || ctx.Err() != nil {
				return
			}
			c.scheduler.Sleep(ctx, 10*time.Second)
		}
	}()
}

// Close ends every actor that is still there, so that the bubble can end.
func (c *Cluster) Close() { c.scheduler.Close() }

// skew is by how much the n-th clock is wrong.
func (c *Cluster) skew(n int) time.Duration {
	if len(c.Skews) == 0 {
		return 0
	}
	return c.Skews[n%len(c.Skews)]
}

func (c *Cluster) clock(n int) func() time.Time {
	wrong := c.skew(n)
	return func() time.Time { return time.Now().Add(wrong) }
}

// skewedContext shifts its deadline by the wrong clock of the process that made it.
type skewedContext struct {
	context.Context
	wrong time.Duration
}

// Deadline implements context.Context.
func (s skewedContext) Deadline() (time.Time, bool) {
	deadline, ok := s.Context.Deadline()
	return deadline.Add(s.wrong), ok
}

// An instance is a process that serves requests.
type instance struct {
	*dispatch.Rails
	skew time.Duration
}

// A refiller refills the wallets of a rail.
type refiller struct {
	instance
	rail token.Coin
}

// Refill implements settlement.Refiller.
func (r refiller) Refill(ctx context.Context, to token.Address, ether bool, seen uint64) error {
	d, err := r.Of(ctx, r.rail)
	if err == nil {
		err = d.Refill(ctx, to, ether, seen)
	}
	return err
}

// Restart replaces an instance by a new process.
func (c *Cluster) Restart(i int) { c.instances[i] = c.newInstance() }

func (c *Cluster) newInstance() instance {
	c.processes++
	n := c.processes
	return instance{skew: c.skew(n), Rails: dispatch.NewRails(dispatch.Wiring{
		Config: func(r store.Rail) (stack.Config, error) { return c.config(c.at(r.Coin.ChainID)), nil },
		Nodes:  func(s stack.Config) chain.Provider { return c.at(s.ChainID).nodes.Watch(c.clock(n), after) },
	}, dispatch.Parts{
		Store: c.store, Keys: c.keys, Book: c, Hints: c, Log: slog.New(slog.DiscardHandler), Now: c.clock(n),
		Draw: func(max int) int { return int(time.Since(c.start)/time.Millisecond+time.Duration(n)) % max },
	})}
}

// config is the configuration of a rail in every instance and in every run.
func (c *Cluster) config(r *rail) stack.Config {
	return stack.Config{ChainID: r.ChainID, Token: r.Token, Network: r.Network, Mode: "test", ByCall: !c.Estimates,
		GasUnit: chain.GasUnit(c.Gas.Unit), Own: stack.Own{Window: c.Window, FeeLimit: c.FeeLimit},
		SilentAfter: c.SilentAfter, ConfirmationRule: c.ConfirmationRule, BlockTime: cmp.Or(c.Pause, blockTime),
		ReservationAge: c.ReservationAge, BumpAfter: bumpAfter}
}

// Set stores the Setup's settings with a largest payment; 0 is no limit.
func (c *Cluster) Set(maximum token.Amount) {
	for i, r := range c.rails {
		c.set(r, maximum, i)
	}
	c.trace("operator", "sets AmountMaximum to %s, NonceWindow to %d", maximum, c.Narrow)
}

func (c *Cluster) set(r *rail, maximum token.Amount, i int) {
	s := settings.Default(r.Rail)
	s.Maximum, s.Daily, s.Refills, s.MerchantCap, s.NonceWindow = maximum, c.Daily, c.Refills, 100, c.Narrow
	s.Sanctions, s.BatchContract = token.Address{0: 0x5a}, fakechain.Batcher
	if c.MerchantCap > 0 {
		s.MerchantCap = min(100, (100*c.MerchantCap+c.Window-1)/c.Window)
	}
	rules, _ := c.Store.Rules(context.Background()) // in memory
	s.Version = rules.Rail(r.Coin()).Settings.Version
	if i > 0 {
		s.Refills = settings.Refills{}
	}
	_ = c.Store.SetSettings(context.Background(), s)
	r.oracle.Ruled(nil)
}

// Damage makes the settings unusable until others are set.
func (c *Cluster) Damage(unusable error) {
	c.Store.SpoilSettings(c.Coin(), unusable)
	c.oracle.Ruled(unusable)
	c.trace("operator", "damages the settings: %v", unusable)
}

// Hint implements dispatch.Hinter.
func (c *Cluster) Hint(ctx context.Context) error {
	return c.scheduler.Around(ctx, interpose.Call{Op: "Hint"}, func(context.Context) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.hinted = true
	})
}

// bookKept is the time from the start in which every payee is in the address book.
const bookKept = 3 * time.Minute

// Active implements dispatch.AddressBook.
func (c *Cluster) Active(ctx context.Context, _, _ string, to token.Address, _ time.Time) (bool, error) {
	active := new(bool) // of its own: an answer that is lost may still be written
	if err := c.scheduler.Around(ctx, interpose.Call{Op: "Active", Args: fmt.Sprintf("%x", to[18:])}, func(context.Context) {
		*active = time.Since(c.start) < bookKept
	}); err != nil {
		return false, err
	}
	return *active, nil
}

// Named implements settlement.Events: every second merchant wants payment.mined.
func (c *Cluster) Named(ctx context.Context, o webhook.Owner, _ string) (bool, error) {
	return oracle.WantsMined(o.Merchant), c.scheduler.Around(ctx, interpose.Call{Op: "Named", Args: o.Merchant}, func(context.Context) {})
}

// Publish implements settlement.Events.
func (c *Cluster) Publish(ctx context.Context, e webhook.Event) error {
	return (&webhook.Publisher{Store: subscribed{}, Queue: c, Bus: c.Bus}).Publish(ctx, e)
}

// subscribed has an endpoint of each merchant.
type subscribed struct{ webhook.Store }

func (subscribed) Endpoints(_ context.Context, o webhook.Owner) ([]webhook.Endpoint, error) {
	return []webhook.Endpoint{{Owner: o, ID: "whe_1", EventTypes: webhook.EventTypes()}}, nil
}

// A job for the bus is shown by the queue at a time, and again later unless it is done.
type job struct {
	text string
	at   time.Time
}

// Enqueue implements webhook.Queue. A job for an endpoint publishes its event.
func (c *Cluster) Enqueue(ctx context.Context, text string, delay time.Duration) error {
	of, _, _ := webhook.ParseJob(text) // of a Publisher or a Deliverer
	if of.Endpoint == "whe_1" {
		return c.arrive(ctx, "Publish", of.Event)
	}
	return c.scheduler.Around(ctx, interpose.Call{Op: "Enqueue", Args: of.Event.ID}, func(context.Context) {
		c.jobs = append(c.jobs, &job{text, time.Now().Add(delay)})
	})
}

// Put implements webhook.Bus.
func (c *Cluster) Put(ctx context.Context, e webhook.Event) error { return c.arrive(ctx, "Put", e) }

func (c *Cluster) arrive(ctx context.Context, op string, e webhook.Event) error {
	return c.scheduler.Around(ctx, interpose.Call{Op: op, Args: e.ID}, func(ctx context.Context) {
		for _, r := range c.rails {
			r.oracle.Published(e, op == "Put")
		}
		if op == "Publish" {
			c.model.publish(ctx, e.ID)
		}
	})
}

// deliver starts deliver-webhook for each job that the queue shows.
func (c *Cluster) deliver() {
	for _, j := range c.jobs {
		if !j.at.After(time.Now()) {
			c.delivered++
			ctx, actor := c.scheduler.Actor(fmt.Sprint("deliver", c.delivered), runTime)
			j.at = time.Now().Add(2 * runTime)
			go func() {
				defer actor.End()
				if (&webhook.Deliverer{Queue: c, Bus: c, Now: time.Now}).Deliver(ctx, j.text) == nil {
					j.at = j.at.AddDate(1, 0, 0)
				}
			}()
		}
	}
}

// requestTime is how long an engine waits for a node's answer (ethrpc.Config.Timeout).
const requestTime = 10 * time.Second

// A node is a fakechain.Node as engines reach it: every request is an effect.
type node struct {
	interpose.Node
	oracle *oracle.Oracle
	model  *acceptor
	host   string
}

func (c *Cluster) node(r *rail, i int) node {
	var of chain.Node = r.Chain.Nodes[i]
	name, host := of.String(), of.String()
	late := func() time.Duration { return c.Latency + c.Latency*time.Duration(i)/16 }
	if i == c.Liar {
		r.liar = &fakechain.Liar{Node: r.Chain.Nodes[i]}
		r.liar.SetHabit(c.Habit)
		of, late = r.liar, r.liar.Delay
	}
	if c.OneHost && i == (c.Liar+1)%len(r.Chain.Nodes) {
		host = r.Chain.Nodes[c.Liar].String()
	}
	around := func(ctx context.Context, call interpose.Call, apply func(context.Context)) error {
		took := late()
		if took > 0 {
			c.scheduler.Sleep(ctx, min(took, requestTime))
		}
		err := c.scheduler.Around(ctx, call, func(ctx context.Context) {
			r.oracle.Called(scheduler.ActorOf(ctx), name, call.Op, call.Args)
			apply(ctx)
		})
		if took >= requestTime {
			return cmp.Or(err, fakechain.ErrDown)
		}
		return err
	}
	return node{interpose.Node{Node: of, Around: around}, r.oracle, c.model, host}
}

// String implements chain.Node: it is the host.
func (n node) String() string { return n.host }

// Account implements chain.Node.
func (n node) Account(ctx context.Context, of, contract token.Address, head chain.Head) (chain.Account, error) {
	asked := time.Now()
	account, err := n.Node.Account(ctx, of, contract, head)
	if err == nil {
		n.oracle.Counted(scheduler.ActorOf(ctx), n.Node.String(), of, account.Mined, asked)
	}
	return account, err
}

// Receipts implements chain.Node.
func (n node) Receipts(ctx context.Context, hashes []chain.Hash) ([]chain.Receipt, error) {
	receipts, err := n.Node.Receipts(ctx, hashes)
	n.oracle.Shown(n.Node.String(), receipts)
	return receipts, err
}

// Send implements chain.Node. Its trace names the nonce and the fee cap.
func (n node) Send(ctx context.Context, raw []byte) (reply chain.Reply) {
	tx, _ := fakechain.Decode(raw)
	hash := tx.Sign().Hash
	call := interpose.Call{Op: "Send", Args: fmt.Sprintf("%s %x#%d %s", n.Node, tx.From[18:], tx.Nonce, tx.Fees.Cap)}
	answered := &chain.Reply{} // of its own: an answer that is lost may still be written
	if err := n.Around(ctx, call, func(ctx context.Context) {
		n.oracle.Sending(hash)
		n.model.send(ctx, tx, hash)
		*answered = n.Node.Node.Send(ctx, raw)
		n.oracle.Replied(n.Node.String(), hash, *answered)
	}); err != nil {
		return chain.Reply{Class: chain.Ambiguous, Detail: err.Error()}
	}
	return *answered
}

// StartRun starts a run of check-receipts and returns the name of its actor.
func (c *Cluster) StartRun() string { return c.startRun("run", nil, (*settlement.Settler).Run) }

// StartRefill starts a run of refill-wallets and returns the name of its actor.
func (c *Cluster) StartRefill() string {
	in := c.newInstance()
	return c.startRun("refill", &in,
		func(s *settlement.Settler, ctx context.Context, _ string) (settlement.Report, error) {
			return s.Refill(ctx)
		})
}

func (c *Cluster) startRun(of string, refills *instance,
	run func(*settlement.Settler, context.Context, string) (settlement.Report, error)) string {
	c.started++
	name, skew := fmt.Sprint(of, c.started), c.skew(c.started)
	now := c.clock(c.started)
	for i, r := range c.rails { // each is an actor: their calls may look the same
		name := name + strings.Repeat("'", i)
		ctx, actor := c.scheduler.Actor(name, runTime)
		c.trace(name, "starts")
		var refilling settlement.Refiller
		if refills != nil {
			refilling = refiller{*refills, r.Coin()}
		}
		s := settlement.New(c.config(r), settlement.Parts{
			Store: c.store, Keys: c.keys, Nodes: r.nodes.Watch(now, after), Events: c,
			Refiller: refilling, Log: slog.New(slog.DiscardHandler), Now: now, Wait: func(ctx context.Context, d time.Duration) {
				r.oracle.Rounded(name)
				c.scheduler.Sleep(ctx, d)
			},
		})
		go func() {
			defer actor.End()
			report, err := run(s, skewedContext{ctx, skew}, name)
			c.mu.Lock()
			c.reports = append(c.reports, report)
			c.mu.Unlock()
			if !errors.Is(err, scheduler.ErrOver) {
				c.trace(name, "ends, with errors: %t", err != nil)
			}
		}()
	}
	return name
}

// Lose takes the tables back to an image, as an operator does who has lost them. Every
// process is a new one, and none of them works before every wallet is paused. The
// bytes of every transaction that the lost tables had signed are in strangers' hands.
func (c *Cluster) Lose(image *memory.Payments) {
	c.Forget(image)
	c.Keys.Down(false) // until then the operator waits
	for _, r := range c.rails {
		if _, err := c.recoverer(r, c.Store, "").Hold(context.Background()); err != nil {
			c.oracle.Violate(oracle.Settles, "pausing every wallet: %v", err)
		}
	}
	c.undrain()
}

// undrain has an operator let the wallets pay that recoveries have registered: all are common ones.
func (c *Cluster) undrain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range c.unlisted {
		_ = c.Store.SetState(context.Background(), id, wallet.Draining, wallet.Active, time.Now())
	}
}

// Forget is Lose with an operator who has not noticed.
func (c *Cluster) Forget(image *memory.Payments) {
	before := c.Store.Image()
	ofEngines := func(actor string) bool { return !strings.HasPrefix(actor, "client") || strings.Contains(actor, ".") }
	c.scheduler.Kill(ofEngines, func(op string) bool { return op == "Send" })
	for _, r := range c.rails {
		for n := range len(r.Chain.Funded()) {
			txs, _, _ := before.PendingTxs(context.Background(), r.walletID(n), 0)
			for _, tx := range txs {
				r.Chain.Keep(tx.Raw)
			}
		}
	}
	c.Store.Restore(image)
	rules, _ := c.Store.Rules(context.Background())
	missing := false
	for _, r := range c.rails {
		r.oracle.Lost(before)
		unusable := rules.Rail(r.Coin()).Unusable
		r.oracle.Ruled(unusable)
		missing = missing || errors.Is(unusable, settings.ErrMissing)
	}
	if missing {
		c.Set(token.Amount{}) // before any process uses the tables
	}
	c.mu.Lock()
	c.losses, c.recovers = c.losses+1, true
	c.mu.Unlock()
	for i := range c.instances {
		c.Restart(i)
	}
}

// accept has an operator take the nodes' chain of a rail for the right one.
func (c *Cluster) accept(r *rail) error {
	return settlement.New(c.config(r), settlement.Parts{Store: c.Store}).Accept(context.Background())
}

// stay has a chain go back below finality for good, once every wallet of it is paused for that and
// every node shows it. An operator accepts that, and then recovers the wallets.
func (c *Cluster) stay(on *rail) bool {
	wallets, _ := c.Store.Wallets(context.Background(), on.Coin())
	for _, r := range wallets.Working(true) {
		if w, err := c.Store.Wallet(context.Background(), r.ID); err != nil || !w.RolledBack() {
			return false
		}
	}
	base, stays := on.Chain.Stay()
	if stays && c.accept(on) == nil {
		for _, r := range c.rails { // all are recovered
			r.oracle.Recovers()
		}
		on.oracle.RolledBack(base)
		c.accepted, c.recovers = true, true
	}
	return stays
}

// recoverer is `remit recover` of a rail on a store, by the clock of its process.
func (c *Cluster) recoverer(of *rail, store store.Store, name string) *recovery.Recovery {
	now := c.clock(c.recovery)
	settler := settlement.New(c.config(of), settlement.Parts{Store: store, Keys: c.keys, Nodes: of.nodes, Events: c,
		Log: slog.New(slog.DiscardHandler), Now: now})
	return &recovery.Recovery{
		Config: c.config(of), Store: store, Keys: c.keys, Nodes: of.nodes, Now: now, Wait: c.scheduler.Sleep,
		Settle: func(ctx context.Context) error {
			_, err := settler.Round(ctx, "recover", true)
			return err
		},
		Say: func(format string, args ...any) {
			c.trace(name, format, args...)
			c.hear(of, format, args)
		},
		Keyed:  slices.DeleteFunc(c.Keys.All(), func(a token.Address) bool { return int(a[19])/firstWallet != of.first/firstWallet }),
		Window: c.Spare,
	}
}

// StartRecovery starts `remit recover`, with changes. When it has ended without an error, the wallets are resumed.
func (c *Cluster) StartRecovery(changes ...func(*recovery.Recovery)) {
	c.recovery++
	losses := c.losses
	name := fmt.Sprint("recover", c.recovery)
	ctx, actor := c.scheduler.Actor(name, 0)
	var all []*recovery.Recovery
	for _, on := range c.rails {
		r := c.recoverer(on, c.store, name)
		for _, change := range changes {
			change(r)
		}
		all = append(all, r)
	}
	c.trace(name, "starts")
	go func() {
		defer actor.End()
		done, err := recoverRails(ctx, all)
		if ctx.Err() != nil {
			return // the simulation is over
		}
		c.trace(name, "ends: %+v, %v", done, err)
		c.undrain()
		if len(done.Differ) > 0 && !c.accepted && changes == nil { // a payment that failed on a lost chain may be mined on the other
			c.oracle.Violate(oracle.SumsAgree, "tables and chain differ on %v", done.Differ)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if err == nil && c.losses == losses && !all[0].DryRun {
			c.recovers = false
		}
	}()
}

// recoverRails holds all rails, recovers one after the other, and resumes them all.
func recoverRails(ctx context.Context, all []*recovery.Recovery) (total recovery.Report, err error) {
	ids := make([][]wallet.ID, len(all))
	for i, r := range all {
		if ids[i], err = r.Hold(ctx); err != nil {
			return total, err
		}
	}
	for i, r := range all {
		done, err := r.Run(ctx, ids[i])
		if total.Differ = append(total.Differ, done.Differ...); i == 0 {
			total = done
		}
		if err != nil {
			return total, err
		}
	}
	for i, r := range all {
		if !r.DryRun && err == nil {
			err = r.End(ctx, ids[i], true)
		}
	}
	return total, err
}

func (c *Cluster) lost() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.recovers
}

func (c *Cluster) trace(who, format string, args ...any) {
	if c.Trace != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.Trace(fmt.Sprintf("%9.3fs %-8s %s", time.Since(c.start).Seconds(), who, fmt.Sprintf(format, args...)))
	}
}

// after is time.After, a nanosecond late: a timer that ends at the instant of an answer
// would leave to the Go scheduler which of them a select takes.
func after(d time.Duration) <-chan time.Time { return time.After(d + time.Nanosecond) }
