package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"remit/internal/chain"
	"remit/internal/token"
)

// baseFee is what the chain asks in quiet times, in wei.
var baseFee = token.Units(100)

// A Taming takes something out of a run of a seed, to find what it takes to
// break a promise. The zero Taming takes nothing.
type Taming struct {
	NoFaults   bool            // of effects
	NoMischief bool            // of the chain, the nodes and the processes
	Without    map[string]bool // single mischiefs and outcomes by name
	Clients    int             // at most so many; 0: no limit
	Steps      int             // faults and mischief end after so many; 0: no limit
}

// chaos is a decider that a seed drives.
type chaos struct {
	w     *World
	tame  Taming
	rng   *rand.Rand
	fault int // in 1000 effects
	kills int // left
	play  int // mischief in 1000 steps
	rush  int // in 100 steps, time passes
	stick int // in 100 picks, whoever went last goes on
	last  *actor
	steps int

	halted bool
	kinds  []string // of mischief this seed plays
}

func (c *chaos) one(in int) bool      { return c.rng.IntN(in) == 0 }
func (c *chaos) share(of int) bool    { return c.rng.IntN(1000) < of }
func (c *chaos) node() *Node          { return c.w.Chain.Nodes[c.rng.IntN(len(c.w.Chain.Nodes))] }
func (c *chaos) off(what string) bool { return c.tame.Without[what] }
func (c *chaos) spent() bool          { return c.tame.Steps > 0 && c.steps > c.tame.Steps }

func (c *chaos) pick(ready []*call) *call {
	if c.rng.IntN(100) < c.rush {
		return nil
	}
	if c.last != nil && c.rng.IntN(100) < c.stick {
		for _, r := range ready {
			if r.actor == c.last {
				return r
			}
		}
	}
	chosen := ready[c.rng.IntN(len(ready))]
	c.last = chosen.actor
	return chosen
}

func (c *chaos) outcome(*call) Outcome {
	if c.tame.NoFaults || c.spent() || !c.share(c.fault) {
		return Apply
	}
	o := Outcome(1 + c.rng.IntN(int(outcomes)-1))
	if o >= KillBefore {
		if c.kills == 0 {
			return FailBefore
		}
		c.kills--
	}
	if c.off(o.String()) {
		return Apply
	}
	return o
}

func (c *chaos) freeze() time.Duration {
	return time.Duration(c.rng.IntN([]int{10, 120, 1500}[c.rng.IntN(3)])) * time.Second
}

func (c *chaos) nap() time.Duration {
	switch c.rng.IntN(20) {
	case 0:
		return time.Duration(60+c.rng.IntN(120)) * time.Second
	case 1, 2, 3:
		return time.Duration(5+c.rng.IntN(20)) * time.Second
	default:
		return time.Duration(200+c.rng.IntN(2500)) * time.Millisecond
	}
}

func (c *chaos) runs() bool {
	alive := 0
	for _, a := range c.w.actors {
		if a.name[0] == 'r' && !a.dead.Load() && !a.ended.Load() {
			alive++
		}
	}
	return alive < 3 && !c.one(6)
}

func (c *chaos) miner() *Node {
	if c.halted {
		return nil
	}
	return c.node()
}

// mischief plays one trick of those that this seed plays.
func (c *chaos) mischief() {
	if c.tame.NoMischief || c.spent() || len(c.kinds) == 0 || !c.share(c.play) {
		return
	}
	kind := c.kinds[c.rng.IntN(len(c.kinds))]
	if c.off(kind) {
		return
	}
	n := c.node()
	if kind == "stranger" {
		steal(c, n)
	} else {
		tricks[kind](c, n)
	}
	c.w.trace("chain", kind+" "+n.name)
}

// tricks are everything that goes wrong around the service.
var tricks = map[string]func(c *chaos, n *Node){
	"down":          func(_ *chaos, n *Node) { n.Down = true },
	"wrong chain":   func(_ *chaos, n *Node) { n.Foreign = true },
	"lag":           func(c *chaos, n *Node) { n.Lag = uint64(1 + c.rng.IntN(6)); n.follow() },
	"null receipts": func(_ *chaos, n *Node) { n.NullReceipts = true },
	"lie":           func(_ *chaos, n *Node) { n.Lies = true },
	"black hole":    func(_ *chaos, n *Node) { n.BlackHole = true },
	"full":          func(_ *chaos, n *Node) { n.Full = true },
	"strict fees":   func(_ *chaos, n *Node) { n.StrictFees = true },
	"deaf":          func(_ *chaos, n *Node) { n.Deaf = true },
	"dear data":     func(_ *chaos, n *Node) { n.Floor = 10_000 },
	"dear data everywhere": func(c *chaos, _ *Node) {
		for _, n := range c.w.Chain.Nodes {
			n.Floor = 10_000
		}
	},
	"unsteady": func(_ *chaos, n *Node) { n.Unsteady = true },
	"forget":   func(_ *chaos, n *Node) { n.Forget() },
	"forget all": func(c *chaos, _ *Node) {
		for _, n := range c.w.Chain.Nodes {
			n.Forget()
		}
	},
	"evict": func(c *chaos, n *Node) {
		n.Drop(Wallet(c.rng.IntN(c.w.Wallets)), uint64(c.rng.IntN(6)))
	},
	"heal":      func(_ *chaos, n *Node) { n.Heal() },
	"fork":      func(c *chaos, n *Node) { n.Fork(1 + c.rng.Uint64N(c.w.Depth)) },
	"reorg":     func(c *chaos, n *Node) { c.w.Chain.Reorg(1+c.rng.Uint64N(c.w.Depth), n) },
	"fees up":   func(c *chaos, _ *Node) { c.w.Chain.BaseFee = token.Units(800) },
	"fees down": func(c *chaos, _ *Node) { c.w.Chain.BaseFee = baseFee },
	"halt":      func(c *chaos, _ *Node) { c.halted = true },
	"go on":     func(c *chaos, _ *Node) { c.halted = false },
	"restart":   func(c *chaos, _ *Node) { c.w.Restart(c.rng.IntN(len(c.w.instances))) },
	"no keys":   func(c *chaos, _ *Node) { c.w.Keys.Down(true) },
	"keys":      func(c *chaos, _ *Node) { c.w.Keys.Down(false) },
}

// steal is one more trick, of few seeds: somebody else has a wallet's key. Then
// a person has to look at it, so not everything settles by itself; but nothing
// may be paid twice, or reported wrongly.
func steal(c *chaos, n *Node) {
	i := c.rng.IntN(c.w.Wallets)
	nonce := n.head.accounts[Wallet(i)].nonce + c.rng.Uint64N(2)
	c.w.judge.steal(Wallet(i), nonce, token.Units(uint64(1+c.steps)))
}

// trickNames are the tricks in a fixed order. Those that heal come twice, so
// that things get better too.
func trickNames() []string {
	names := []string{"heal", "heal", "go on", "fees down", "keys"}
	for name := range tricks {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// setupOf draws what a seed's World is made of.
func setupOf(rng *rand.Rand) Setup {
	s := Setup{
		Wallets: 1 + rng.IntN(3), Nodes: 1 + rng.IntN(3), Instances: 1 + rng.IntN(2), Depth: 1 + rng.Uint64N(3),
		Window: []uint64{2, 4, 64}[rng.IntN(3)], Coins: []uint64{1_500, 1_000_000}[rng.IntN(2)], Ether: 1_000,
	}
	s.ConfirmationRule = []chain.ConfirmationRule{{Depth: s.Depth}, {Tag: "safe"}, {Tag: "finalized"}}[rng.IntN(3)]
	if rng.IntN(4) == 0 {
		s.Daily = token.Units(2_500)
	}
	if rng.IntN(4) == 0 {
		s.FeeLimit = token.Units(1_000)
	}
	if rng.IntN(3) == 0 {
		s.ReservationAge = time.Second
	}
	if rng.IntN(5) == 0 {
		s.Skews = []time.Duration{0, 10 * time.Minute, -10 * time.Minute, time.Second}
	}
	return s
}

// Simulate runs one seed in the bubble it is called in, and returns the
// promises that were broken.
func Simulate(seed uint64, tame Taming, trace func(string)) []string {
	rng := rand.New(rand.NewPCG(seed, 0x5eed))
	w := NewWorld(setupOf(rng))
	defer w.Close()
	w.Trace = trace
	w.trace("world", fmt.Sprintf("%+v", w.Setup))
	c := &chaos{
		w: w, tame: tame, rng: rng, fault: []int{0, 15, 60, 150}[rng.IntN(4)], kills: rng.IntN(7),
		play: []int{0, 10, 40}[rng.IntN(3)], rush: []int{3, 15, 30}[rng.IntN(3)], stick: []int{0, 50, 90}[rng.IntN(3)],
	}
	for _, name := range trickNames() {
		if rng.IntN(3) == 0 {
			c.kinds = append(c.kinds, name)
		}
	}
	if rng.IntN(20) == 0 {
		c.kinds = append(c.kinds, "stranger", "stranger")
	}
	payments := 1 + rng.IntN(4)
	for n := range payments {
		r := Request{Key: fmt.Sprintf("key%d", n), To: Payee(n), Amount: uint64(100*n + 500)}
		w.Chain.Recipients[r.To] = []Recipient{Pays, Pays, Pays, Pays, Pays, ReturnsFalse, LogsLess}[rng.IntN(7)]
		for i := range 1 + rng.IntN(3) {
			if tame.Clients == 0 || n*3+i < tame.Clients {
				w.StartClient(fmt.Sprintf("client%d%c", n, 'a'+i), r, 1+rng.IntN(4), rng.IntN(3) == 0)
			}
		}
	}
	clock := w.clock()
	length := time.Duration(1+rng.IntN(8)) * time.Minute
	for c.steps = range 4_000 {
		if time.Since(w.start) > length {
			break
		}
		c.mischief()
		w.step(c, clock)
	}
	w.Heal()
	w.Settle()
	w.Replay()
	return w.Verdict(len(w.judge.foreign) == 0)
}
