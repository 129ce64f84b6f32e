package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/proof/simulation/fakechain"
	"github.com/remit-payouts/remit/internal/proof/simulation/oracle"
	"github.com/remit-payouts/remit/internal/proof/simulation/scheduler"
)

// A calm is the policy in which chance decides the order of effects and who makes a block, and no effect fails.
type calm struct {
	faultless
	rng *rand.Rand
}

func (c *calm) pick(ready []*scheduler.Effect) *scheduler.Effect {
	return ready[c.rng.IntN(len(ready))]
}
func (c *calm) nap() time.Duration { return 100 * time.Millisecond }

// settledWithin bounds the time of a payment: three times its longest with honest nodes. disturbed is the bound in
// seeds with disturbances.
const settledWithin, disturbed = 4 * time.Minute, 10 * time.Minute

// disturbances are no node's fault, and make payments take longer.
var disturbances = map[string]func(c *Cluster, p *calm){
	"rise":   func(c *Cluster, _ *calm) { c.Chain.BaseFee = token.Units(800) },
	"halt":   func(_ *Cluster, p *calm) { p.Halted = true },
	"forget": func(c *Cluster, _ *calm) { c.Chain.Each((*fakechain.Node).Forget) },
	"reorg":  func(c *Cluster, p *calm) { c.Chain.Reorg(1+p.rng.Uint64N(c.Depth), c.Chain.Nodes[p.blocks%3]) },
	"":       func(*Cluster, *calm) {},
}

const (
	oneHost = "one host"
	tightly = 1_300 // coins for two orders
)

// endurance draws the Setup of a seed in which one node of three may answer anything, and no other goes wrong.
func endurance(rng *rand.Rand, r Reduction) (s Setup) {
	s = Setup{Wallets: []int{1, 1, 1, 2, 2, 2, 3, 3, 3, 50}[rng.IntN(10)], Nodes: 3, Instances: 1 + rng.IntN(2),
		Depth: 1 + rng.Uint64N(3), Window: 64, Coins: 1_000_000, Gwei: 1_000, Liar: rng.IntN(3),
		SilentAfter: []time.Duration{0, time.Minute, 5 * time.Minute}[rng.IntN(3)]}
	s.ConfirmationRule = []chain.ConfirmationRule{{Depth: s.Depth}, {Tag: "safe"}, {Tag: "finalized"}}[rng.IntN(3)]
	s.Pause = []time.Duration{0, time.Second, 3 * time.Second}[rng.IntN(3)]
	s.Latency = []time.Duration{0, 60 * time.Millisecond, 700 * time.Millisecond}[rng.IntN(3)]
	s.OneHost = rng.IntN(4) == 0 && !r.Without[oneHost]
	switch rng.IntN(6) {
	case 0: // the last payments need a refill
		s.Wallets, s.Coins = 1, 4_500
		s.Refills.Token = settings.Refill{Low: token.Units(3_500), Amount: token.Units(3_000)}
	case 1:
		s.Wallets, s.Coins = 1, tightly
	}
	s.Habit = habit(rng, r)
	return s
}

// habit draws how a node lies: about nothing, about one or a few parts of its answers, or about most.
func habit(rng *rand.Rand, r Reduction) fakechain.Habit {
	h := fakechain.Habit{Seed: rng.Uint64(), Share: []int{25, 60, 100}[rng.IntN(3)],
		Hold: []time.Duration{0, 15 * time.Second, 2 * time.Minute, 1000 * time.Hour}[rng.IntN(4)]}
	about := func(subject string) {
		if !r.Without[subject] && !slices.Contains(h.About, subject) {
			h.About = append(h.About, subject)
		}
	}
	kind := rng.IntN(8)
	if kind == 7 { // about an account at a block that others do not have yet
		about("head")
		about([]string{"mined", "balance", "gas"}[rng.IntN(3)])
	}
	for range []int{0, 1, 1, 1, 2, 3, 2 * len(fakechain.Subjects), 0}[kind] {
		about(fakechain.Subjects[rng.IntN(len(fakechain.Subjects))])
	}
	return h
}

// Endure runs one seed in which one node of three may answer anything, from the start to the end, and returns the
// violations of the invariants and of a Goal. The same seed and Reduction do the same every time.
func Endure(seed uint64, metered bool, r Reduction, trace func(string)) []string {
	rng := rand.New(rand.NewPCG(seed, 0xb12a))
	setup := endurance(rng, r)
	setup.Goal = oracle.Goal{Unharmed: true, Within: settledWithin}
	kinds := []string{"", "", "", "rise", "halt", "forget", "reorg"}
	comes := []string{kinds[rng.IntN(len(kinds))], kinds[rng.IntN(len(kinds))]}
	if slices.ContainsFunc(comes, func(kind string) bool { return kind != "" }) {
		setup.Goal.Within = disturbed
	}
	held := slices.Contains(comes, "rise") || slices.Contains(comes, "halt")
	c := NewCluster(setup, trace)
	defer c.Close()
	c.trace("cluster", "%+v", c.Setup)
	p, due := &calm{faultless{}, rng}, newTimetable()
	elapse := func(d time.Duration) {
		for end := time.Now().Add(d); time.Now().Before(end); {
			c.step(p, due)
		}
	}
	for i := range 12 {
		order := oracle.Order{Key: fmt.Sprint("key", i), Merchant: fmt.Sprint("mer_", i%3), To: fakechain.Payee(i),
			Amount: uint64(500 + i), Sure: i%6 != 3 && c.Coins > tightly}
		if i%6 == 3 { // too much for every wallet
			order.Amount += 10 * c.Coins
		}
		if r.Clients == 0 || i < r.Clients {
			c.Post(order.Key, i, order)
		}
		pause := time.Duration(5+rng.IntN(50)) * time.Second
		switch {
		case c.Coins == tightly:
			pause /= 10
		case i == 9 && c.Refills != (settings.Refills{}) && held: // the last payments need the refill that it held back
			pause = settledWithin
		}
		if elapse(pause); i == c.Instances {
			c.oracle.Goal.Metered = metered // once each process has started
		}
		if kind := comes[min(i%5, 1)]; i%5 < 2 && !r.Without[kind] {
			disturbances[kind](c, p)
			c.trace("chain", "%s", kind)
		}
		if i%5 == 3 {
			p.Halted, c.Chain.BaseFee = false, quietFee
		}
	}
	p.Halted, c.Chain.BaseFee = false, quietFee
	elapse(c.Goal.Within)
	c.oracle.Ended()
	return c.Finish(true)
}
