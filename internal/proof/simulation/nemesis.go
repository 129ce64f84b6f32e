package simulation

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing/synctest"
	"time"

	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/simulation/fakechain"
	"github.com/remit-payouts/remit/internal/proof/simulation/scheduler"
	"github.com/remit-payouts/remit/internal/sandbox/memory"
)

// A nemesis is the policy of a seed: chance chooses the order of effects and their faults, and between effects it plays
// faults of the chain, the nodes and the processes.
type nemesis struct {
	cluster   *Cluster
	at        *rail      // where its next fault strikes
	notice    int        // once in so many steps, an operator who has lost the tables recovers them
	where     *rand.Rand // chooses that; nil: there is one
	quiet     bool       // the tables of two rails are lost, and nobody notices at first
	reduction Reduction
	rng       *rand.Rand
	effects   int      // faults in 1,000 effects
	kills     int      // left
	faults    int      // around the service, in 1,000 steps
	kinds     []string // of this seed's faults
	rush      int      // in 100 steps, time elapses although effects wait
	stick     int      // in 100 picks, the actor that went last goes on
	last      *scheduler.Actor
	steps     int
	away      journey
	returns   time.Duration      // when the nodes return, since the start; 0: they have not left
	images    []*memory.Payments // of the tables since they were last lost, oldest first
}

func draw(c *Cluster, rng *rand.Rand, byzantine bool, r Reduction) *nemesis {
	n := &nemesis{cluster: c, at: c.rail, reduction: r, notice: 30, rng: rng,
		effects: []int{0, 15, 60, 150}[rng.IntN(4)], kills: rng.IntN(7), faults: []int{0, 10, 40}[rng.IntN(3)],
		rush: []int{3, 15, 30}[rng.IntN(3)], stick: []int{0, 50, 90}[rng.IntN(3)]}
	// Faults that end others come twice, so that things get better too.
	kinds := slices.AppendSeq([]string{"heal", "heal", "go on", "fees down", "keys", "signatures", "unblock"}, maps.Keys(faults))
	slices.Sort(kinds)
	for _, kind := range kinds {
		if kind != thief && kind != liar && kind != reset && kind != fork && rng.IntN(3) == 0 {
			n.kinds = append(n.kinds, kind)
		}
	}
	if rng.IntN(20) == 0 {
		n.kinds = append(n.kinds, thief, thief)
	}
	if byzantine {
		n.kinds = append(n.kinds, liar, liar)
	}
	return n
}

func (n *nemesis) one(in int) bool   { return n.rng.IntN(in) == 0 }
func (n *nemesis) share(of int) bool { return n.rng.IntN(1000) < of }
func (n *nemesis) node() *fakechain.Node {
	return n.at.Chain.Nodes[n.rng.IntN(len(n.at.Chain.Nodes))]
}
func (n *nemesis) ended() bool { return n.reduction.Steps > 0 && n.steps > n.reduction.Steps }

func (n *nemesis) pick(ready []*scheduler.Effect) *scheduler.Effect {
	if n.rng.IntN(100) < n.rush {
		return nil
	}
	if n.last != nil && n.rng.IntN(100) < n.stick {
		for _, e := range ready {
			if e.Actor == n.last {
				return e
			}
		}
	}
	chosen := ready[n.rng.IntN(len(ready))]
	n.last = chosen.Actor
	return chosen
}

func (n *nemesis) outcome(*scheduler.Effect) scheduler.Outcome {
	if n.ended() || !n.share(n.effects) {
		return scheduler.Apply
	}
	all := scheduler.Faults()
	o := all[n.rng.IntN(len(all))]
	if o >= scheduler.KillBefore {
		if n.kills == 0 {
			return scheduler.FailBefore
		}
		n.kills--
	}
	if n.reduction.Without[o.String()] {
		return scheduler.Apply
	}
	return o
}

func (n *nemesis) freeze() time.Duration {
	return time.Duration(n.rng.IntN([]int{10, 120, 1500}[n.rng.IntN(3)])) * time.Second
}

func (n *nemesis) nap() time.Duration {
	switch n.rng.IntN(20) {
	case 0:
		return time.Duration(60+n.rng.IntN(120)) * time.Second
	case 1, 2, 3:
		return time.Duration(5+n.rng.IntN(20)) * time.Second
	default:
		return time.Duration(200+n.rng.IntN(2500)) * time.Millisecond
	}
}

func (n *nemesis) runs() bool { return n.cluster.scheduler.Busy("run") < 3 && !n.one(6) }

func (n *nemesis) miner(on *rail) *fakechain.Node {
	if on.halted {
		return nil
	}
	return on.Chain.Nodes[n.rng.IntN(len(on.Chain.Nodes))]
}

// strike plays at most one of this seed's faults.
func (n *nemesis) strike() {
	if c := n.cluster; n.steps%20 == 0 && (slices.Contains(n.kinds, loss) || n.quiet) {
		n.images = append(n.images, c.Store.Image())
	}
	if c := n.cluster; c.lost() && c.scheduler.Busy("recover") == 0 && n.one(n.notice) {
		c.StartRecovery()
		synctest.Wait() // else chance decides whether the next fault comes before its first effect
	}
	n.travel()
	n.forget()
	if n.ended() || len(n.kinds) == 0 || !n.share(n.faults) {
		return
	}
	kind := n.kinds[n.rng.IntN(len(n.kinds))]
	if n.reduction.Without[kind] {
		return
	}
	if n.where != nil {
		n.at = n.cluster.rails[n.where.IntN(len(n.cluster.rails))]
	}
	node := n.node()
	faults[kind](n, node)
	n.cluster.trace("chain", "%s %s", kind, node)
}

// forget restores the tables of two rails unnoticed, once every node, even a lagging one, has all their transactions.
// So only a comparison can show that a payment is lost.
func (n *nemesis) forget() {
	c := n.cluster
	if !n.quiet || n.ended() || n.reduction.Without[unnoticed] || c.losses == 2 || c.accepted || n.where.IntN(5) > 0 || c.model.flying(8) ||
		slices.ContainsFunc(c.rails, func(r *rail) bool {
			return r.Chain.Away() || slices.ContainsFunc(r.Chain.Nodes, func(n *fakechain.Node) bool { return n.Stuck })
		}) {
		return
	}
	images := slices.DeleteFunc(append([]*memory.Payments{memory.NewPayments()}, n.images...),
		func(image *memory.Payments) bool { return !c.loses(image) })
	if len(images) == 0 {
		return
	}
	c.Forget(n.torn(images[n.where.IntN(len(images))]))
	c.trace("operator", unnoticed)
	for _, order := range c.orders() { // the same keys, at once, for the other asset
		if order.Asset != assets[1].Coin() {
			order.Asset = assets[1].Coin()
		} else {
			order.Asset = token.Coin{}
		}
		if (order.From == token.Address{}) && order.Guard == 0 {
			order = c.at(order.Asset.ChainID).oracle.Order(order)
			c.StartClient(fmt.Sprintf("client-other%d-%s%d", n.steps, order.Key, order.Asset.ChainID), order, 1+n.where.IntN(6), false)
		}
	}
}

// torn returns an image, or mostly the last torn copy if it will do, and drops all that there are.
func (n *nemesis) torn(image *memory.Payments) *memory.Payments {
	m := n.cluster.model
	if m.torn != nil && n.steps%4 > 0 && (!n.quiet || n.cluster.loses(m.torn)) {
		n.cluster.trace("operator", "the copy is torn")
		image = m.torn
		for _, r := range n.cluster.rails {
			r.oracle.Torn = true
		}
	}
	n.images, m.torn = nil, nil
	return image
}

// loses reports whether an image lacks transactions of one rail, and of no other.
func (c *Cluster) loses(image *memory.Payments) bool {
	lossy := 0
	for _, r := range c.rails {
		if slices.ContainsFunc(slices.Collect(maps.Keys(r.Chain.Funded())), func(a token.Address) bool {
			w, _ := image.Wallet(context.Background(), wallet.ID{ChainID: r.ChainID, Address: a})
			return w.NextNonce < r.Chain.Account(a, 0).Nonce
		}) {
			lossy++
		}
	}
	return lossy == 1
}

// unnoticed is the fault of seeds with two rails.
const unnoticed = "tables lost, unnoticed"

// thief is the fault that few seeds have: a thief uses a wallet's key. An operator has to look at the wallet then, so
// not everything settles by itself; but no payment may be made twice or reported wrongly.
const thief = "stranger"

// liar is the fault of the seeds in which one of three nodes may answer anything.
const liar = "byzantine"

// reset and fork are the faults by which nodes serve another chain for a while.
const reset, fork = "testnet reset", "rpc fork"

// loss is the fault that takes the tables back by any amount, or empties them.
const loss = "lose the tables"

// faults are those of the chain, the nodes and the processes, and their ends.
var faults = map[string]func(n *nemesis, on *fakechain.Node){
	"down":          func(_ *nemesis, on *fakechain.Node) { on.Down = true },
	"wrong chain":   func(_ *nemesis, on *fakechain.Node) { on.OtherChain = true },
	"lag":           func(n *nemesis, on *fakechain.Node) { on.Lag = uint64(1 + n.rng.IntN(6)); on.Follow() },
	"null receipts": func(_ *nemesis, on *fakechain.Node) { on.NullReceipts = true },
	"lie": func(n *nemesis, _ *fakechain.Node) {
		names := slices.Sorted(maps.Keys(fakechain.Lies))
		// One node may lie, if no round believes it alone: not the only one, nor one of two if silence does not count.
		alone := 1
		if n.cluster.SilentAfter > 0 {
			alone = 2
		}
		if liar := n.at.Chain.Nodes[0]; len(n.at.Chain.Nodes) > alone {
			liar.Lies = fakechain.Lies[names[n.rng.IntN(len(names))]]
		}
	},
	liar:          func(n *nemesis, _ *fakechain.Node) { n.at.liar.SetHabit(habit(n.rng, n.reduction)) },
	"black hole":  func(_ *nemesis, on *fakechain.Node) { on.BlackHole = true },
	"full":        func(_ *nemesis, on *fakechain.Node) { on.Full = true },
	"strict fees": func(_ *nemesis, on *fakechain.Node) { on.StrictFees = true },
	"deaf":        func(_ *nemesis, on *fakechain.Node) { on.Deaf = true },
	"dear data":   func(_ *nemesis, on *fakechain.Node) { on.Floor = 10_000 },
	"dear data everywhere": func(n *nemesis, _ *fakechain.Node) {
		n.at.Chain.Each(func(on *fakechain.Node) { on.Floor = 10_000 })
	},
	"dear L1 data": func(n *nemesis, _ *fakechain.Node) {
		n.at.Chain.L1Gas = []uint64{0, 500, 5_000, 50_000}[n.rng.IntN(4)]
	},
	"L1 fee": func(n *nemesis, _ *fakechain.Node) {
		if n.cluster.Gas.Unit > 0 { // no such chain has one
			return
		}
		n.at.Chain.L1Fee = token.Units([]uint64{0, 1_000, 1_000_000}[n.rng.IntN(3)])
	},
	"nonsense": func(n *nemesis, on *fakechain.Node) {
		names := slices.Sorted(maps.Keys(fakechain.Nonsenses))
		on.Quotes = fakechain.Nonsenses[names[n.rng.IntN(len(names))]]
		n.cluster.mispriced = true
	},
	"forget":        func(_ *nemesis, on *fakechain.Node) { on.Forget() },
	"forget all":    func(n *nemesis, _ *fakechain.Node) { n.at.Chain.Each((*fakechain.Node).Forget) },
	"evict":         func(n *nemesis, on *fakechain.Node) { on.Drop(n.wallet(), uint64(n.rng.IntN(6))) },
	"heal":          func(_ *nemesis, on *fakechain.Node) { on.Heal() },
	"fork":          func(n *nemesis, on *fakechain.Node) { depth := n.depth(); on.Fork(depth, depth) },
	"reorg":         func(n *nemesis, on *fakechain.Node) { n.at.Chain.Reorg(n.depth(), on) },
	"fees up":       func(n *nemesis, _ *fakechain.Node) { n.at.Chain.BaseFee = token.Units(800) },
	"fees down":     func(n *nemesis, _ *fakechain.Node) { n.at.Chain.BaseFee = quietFee },
	"halt":          func(n *nemesis, _ *fakechain.Node) { n.at.halted = true },
	"go on":         func(n *nemesis, _ *fakechain.Node) { n.at.halted = false },
	"restart":       func(n *nemesis, _ *fakechain.Node) { n.cluster.Restart(n.rng.IntN(n.cluster.Instances)) },
	"no keys":       func(n *nemesis, _ *fakechain.Node) { n.cluster.Keys.Down(true) },
	"keys":          func(n *nemesis, _ *fakechain.Node) { n.cluster.Keys.Down(false) },
	"no signatures": func(n *nemesis, _ *fakechain.Node) { n.cluster.keys.down.Store(true) },
	"signatures":    func(n *nemesis, _ *fakechain.Node) { n.cluster.keys.down.Store(false) },
	"block":         func(n *nemesis, _ *fakechain.Node) { n.at.Chain.Blocked[n.wallet()] = true },
	"unblock": func(n *nemesis, _ *fakechain.Node) {
		for w := range n.at.Chain.Blocked {
			n.at.Chain.Blocked[w] = false
		}
	},
	"old copies": func(n *nemesis, _ *fakechain.Node) { n.at.Chain.Replay() },
	"retire": func(n *nemesis, _ *fakechain.Node) {
		if wallets := n.cluster.Wallets; wallets > 1 { // the first one goes on paying
			n.cluster.startRetirement(n.at, 1+n.rng.IntN(wallets-1))
		}
	},
	reset: func(n *nemesis, _ *fakechain.Node) { n.elsewhere(1) },
	fork:  func(n *nemesis, _ *fakechain.Node) { n.elsewhere(n.rng.Uint64N(60)) },
	loss: func(n *nemesis, _ *fakechain.Node) {
		if n.cluster.losses == 2 || n.cluster.rails[n.away.rail].Chain.Away() { // no final block, no fork
			return
		}
		image := memory.NewPayments()
		if len(n.images) > 0 && !n.one(4) {
			image = n.images[n.rng.IntN(len(n.images))]
		}
		n.cluster.Lose(n.torn(image))
	},
	thief: func(n *nemesis, on *fakechain.Node) {
		wallet := n.wallet()
		n.at.oracle.Steal(wallet, on.Mined(wallet)+n.rng.Uint64N(2), token.Units(uint64(1+n.steps)))
	},
}

// elsewhere has every node, or most of them, or one, serve a chain that lacks the newest block
// that a run has called final, and perhaps all of them. Before any has, no run could know.
func (n *nemesis) elsewhere(blocks uint64) {
	c := n.cluster
	known, err := c.Store.Compared(context.Background(), n.at.Coin())
	if err != nil || known.Final.Number < 2 || n.quiet && c.lost() { // a fork of all hides what restored tables lack
		return
	}
	base := uint64(0)
	if n.away.kind == fork {
		base = []uint64{1, 1 + n.rng.Uint64N(known.Final.Number-1), known.Final.Number - 1}[n.rng.IntN(3)]
	}
	from := []int{0, 0, n.rng.IntN(len(n.at.Chain.Nodes))}[n.rng.IntN(3)]
	n.at.Chain.Elsewhere(base, blocks, n.at.Chain.Nodes[from:]...)
	n.returns = time.Since(c.start) + n.away.stay
}

// travel has nodes serve another chain, and the right one again, as the seed decides.
func (n *nemesis) travel() {
	c := n.cluster
	at := time.Since(c.start)
	n.at = c.rails[n.away.rail]
	switch {
	case n.away.kind == "" || n.ended() || n.reduction.Without[n.away.kind]:
	case n.returns == 0 && at >= n.away.leave:
		if faults[n.away.kind](n, nil); n.at.Chain.Away() {
			c.trace("chain", "%s", n.away.kind)
		}
	case n.at.Chain.Away() && at >= n.returns:
		if n.away.stays && c.stay(n.at) {
			c.trace("chain", "stays")
			return
		}
		n.at.Chain.Return()
		c.trace("chain", "returns")
	}
}

// A journey is when the nodes of a seed serve another chain, and for how long.
type journey struct {
	kind        string // reset, fork, or "" for none
	leave, stay time.Duration
	stays       bool // it becomes the chain
	rail        int  // whose nodes do
}

func journeyOf(rng *rand.Rand) (j journey) {
	if rng.IntN(5) == 0 {
		j.kind = []string{reset, fork}[rng.IntN(2)]
		j.leave = time.Duration(30+rng.IntN(150)) * time.Second
		j.stay = time.Duration(1+rng.IntN(14)) * time.Minute
		j.stays = j.kind == fork && rng.IntN(2) == 0
	}
	return j
}

func (n *nemesis) wallet() token.Address { return n.at.walletID(n.rng.IntN(n.cluster.Wallets)).Address }
func (n *nemesis) depth() uint64         { return 1 + n.rng.Uint64N(n.cluster.Depth) }
