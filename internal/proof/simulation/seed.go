package simulation

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/proof/simulation/fakechain"
	"github.com/remit-payouts/remit/internal/proof/simulation/oracle"
	"github.com/remit-payouts/remit/internal/proof/simulation/scheduler"
)

func setupOf(rng *rand.Rand) Setup {
	s := Setup{Wallets: 1 + rng.IntN(3), Nodes: 1 + rng.IntN(3), Instances: 1 + rng.IntN(2), Depth: 1 + rng.Uint64N(3),
		Window: []uint64{2, 4, 64}[rng.IntN(3)], Coins: []uint64{1_500, 1_000_000}[rng.IntN(2)], Gwei: 1_000}
	s.ConfirmationRule = []chain.ConfirmationRule{{Depth: s.Depth}, {Tag: "safe"}, {Tag: "finalized"}}[rng.IntN(3)]
	if rng.IntN(4) == 0 {
		s.Daily = token.Units(2_500)
		if s.Nodes > 1 {
			s.Key = payment.KeyLimits{Maximum: token.Units(800), Book: true,
				Daily: payment.DailyLimit{Key: "key_a", Amount: token.Units(2_000), Count: 3}}
		}
	}
	if rng.IntN(3) == 0 {
		s.MerchantCap = 1 + rng.Uint64N(2)
	}
	if rng.IntN(4) == 0 {
		s.FeeLimit = token.Units(1_000)
	}
	if rng.IntN(3) == 0 {
		s.ReservationAge = time.Second
	}
	if rng.IntN(3) == 0 {
		s.Remote = 1 + rng.IntN(s.Wallets)
	}
	if rng.IntN(5) == 0 {
		s.Skews = []time.Duration{0, 10 * time.Minute, -10 * time.Minute, time.Second}
	}
	return s
}

// Refilling are rules by which wallets of a seed are refilled now and then.
var Refilling = settings.Refills{
	Token: settings.Refill{Low: token.Units(1_000), Amount: token.Units(800)},
	Ether: settings.Refill{Low: token.Units(900_000_000_000), Amount: token.Units(300_000_000_000)},
}

// further draws the parts of a Setup that have a stream each, so that other draws stay as they were.
func further(setup *Setup, seed uint64) {
	setup.SilentAfter = []time.Duration{0, time.Minute, 5 * time.Minute}[rand.New(rand.NewPCG(seed, 0x90a1)).IntN(3)]
	if epochs := rand.New(rand.NewPCG(seed, 0xe925)); epochs.IntN(2) == 0 { // rounds between moves of the final block
		setup.Epoch = []uint64{0, 3, 5, 25}[epochs.IntN(4)]
		setup.Pause = []time.Duration{time.Second, 3 * time.Second, 12 * time.Second}[epochs.IntN(3)] // of 25 s
	}
	if rand.New(rand.NewPCG(seed, 0x2a11)).IntN(3) == 0 {
		setup.Rails = 2
	}
	if rand.New(rand.NewPCG(seed, 0x0317)).IntN(4) == 0 && setup.Wallets > 1 {
		setup.Own = "mer_1"
	}
	setup.Bus = rand.New(rand.NewPCG(seed, 0xb05)).IntN(4) == 0
	setup.Estimates = rand.New(rand.NewPCG(seed, 0xca21)).IntN(3) == 0
	if refill := rand.New(rand.NewPCG(seed, 0xf111)); refill.IntN(4) == 0 {
		setup.Refills = Refilling
		if refill.IntN(3) == 0 {
			setup.Refills.Token.Daily, setup.Refills.Ether.Daily = token.Units(800), token.Units(300_000_000_000)
		}
	}
	if setup.Gas = GasOf(seed); setup.Gas.Unit > 0 {
		setup.Refills.Ether = settings.Refill{}
	}
}

// GasOf draws how gas is paid in a seed's world: in a quarter of them in the token, else in ether, the zero Rule.
func GasOf(seed uint64) fakechain.Rule {
	gas := rand.New(rand.NewPCG(seed, 0x6a5))
	if gas.IntN(4) > 0 {
		return fakechain.Rule{}
	}
	return fakechain.Rule{Unit: []uint64{1_000_000, 10_000_000}[gas.IntN(2)], Whole: gas.IntN(2) == 0}
}

// Simulate runs one seed in the bubble it is called in and returns the
// violations. The same seed, number of further merchants, presence of a liar and Reduction do the same every time.
func Simulate(seed uint64, merchants int, byzantine bool, r Reduction, trace func(string)) []string {
	rng := rand.New(rand.NewPCG(seed, 0x5eed))
	setup := setupOf(rng)
	further(&setup, seed)
	if byzantine {
		setup.Nodes, setup.Habit = 3, habit(rand.New(rand.NewPCG(seed, 0xb12a)), r)
	}
	crowd := crowdOf(rand.New(rand.NewPCG(seed, 0xc20d)), merchants, &setup)
	c := NewCluster(setup, trace)
	defer c.Close()
	c.trace("cluster", "%+v", c.Setup)
	n := draw(c, rng, byzantine, r)
	if crowd.merchants > 0 {
		n.rush = 1 // or none of them would be answered in time
	}
	n.away = journeyOf(rand.New(rand.NewPCG(seed, 0xa3a1)))
	n.away.stays = n.away.stays && setup.Skews == nil // times show which blocks were final before
	rails := rand.New(rand.NewPCG(seed, 0x2a12))
	if setup.Rails > 1 {
		n.where, n.away.rail, n.quiet = rails, rails.IntN(setup.Rails), rails.IntN(2) == 0
		c.rails[rails.IntN(setup.Rails)].liar.SetHabit(fakechain.Habit{}) // a liar is on one chain only
	}
	c.model.tearing = n.quiet || slices.Contains(n.kinds, loss)
	if calls := rand.New(rand.NewPCG(seed, 0xdea2)); calls.IntN(4) == 0 {
		c.Chain.Dear[fakechain.Payee(0)] = 400_000
		if setup.Nodes > 1 {
			c.Chain.Nodes[calls.IntN(setup.Nodes)].Blind = calls.IntN(2) == 0
		}
	}
	batches := rand.New(rand.NewPCG(seed, 0xba7c)) // of its own, so that other orders stay as they were
	if batches.IntN(8) == 0 {
		c.Chain.Approved = map[token.Address]bool{fakechain.Wallet(0): true}
	}
	several := rand.New(rand.NewPCG(seed, 0x3e2c))
	of := 1 + 2*several.IntN(2)
	var orders []oracle.Order
	for i := range 1 + rng.IntN(4) {
		order := oracle.Order{Key: fmt.Sprintf("key%d", i), Merchant: fmt.Sprintf("mer_%d", 1+several.IntN(of)),
			To: fakechain.Payee(i), Amount: uint64(100*i + 500)}
		if i%3 == 1 {
			order.Patience = 4 * time.Second
		}
		c.Chain.Recipients[order.To] = []fakechain.Recipient{fakechain.Pays, fakechain.Pays, fakechain.Pays,
			fakechain.Pays, fakechain.Pays, fakechain.ReturnsFalse, fakechain.LogsLess}[rng.IntN(7)]
		if c.Gas.Unit > 0 && i == 3 && c.Chain.Recipients[order.To] == fakechain.Pays {
			c.Chain.Recipients[order.To] = fakechain.Guarded
		}
		order = c.batch(order, i, batches)
		orders = append(orders, order)
		if rng.IntN(6) == 0 { // a merchant repeats it on purpose
			for j := range 6 {
				c.StartClient(fmt.Sprintf("repeat%d%c", i, 'a'+j), order, 4, true)
			}
		}
		switch rng.IntN(16) {
		case 0:
			c.Chain.Listed[order.To] = true
		case 1:
			_ = c.Store.Deny(context.Background(), store.Denial{To: order.To}) // in memory
		}
		for j := range 1 + rng.IntN(3) {
			if r.Clients == 0 || i*3+j < r.Clients {
				c.StartClient(fmt.Sprintf("client%d%c", i, 'a'+j), order, 1+rng.IntN(4), rng.IntN(3) == 0)
			}
		}
	}
	if setup.Rails > 1 {
		c.startElsewhere(orders, rails, r)
	}
	c.startRivals(rand.New(rand.NewPCG(seed, 0x6a7d)), r)
	c.startProposals(rand.New(rand.NewPCG(seed, 0x9209)), r)
	if setup.Own != "" {
		c.StartAssignment(setup.Wallets-1, setup.Own)
	}
	c.startOperators(rand.New(rand.NewPCG(seed, 0x09e4)), r)
	changes := rand.New(rand.NewPCG(seed, 0x11575)) // of its own too
	changing := changes.IntN(4) == 0
	due := newTimetable()
	length := time.Duration(1+rng.IntN(8))*time.Minute + n.away.stay
	if n.quiet {
		n.notice, length = 200, length+5*time.Minute
	}
	for n.steps = range 4_000 + 20*crowd.merchants {
		if came := crowd.step(c); came && time.Since(c.start) > length {
			break
		}
		n.strike()
		if at := n.steps; setup.Own != "" && at%200 == 100 && at < 2_000 { // others and itself, before and after
			c.StartClient(fmt.Sprint("client-own", at), oracle.Order{Key: fmt.Sprint("own", at),
				Merchant: fmt.Sprintf("mer_%d", 1+at/200%2), To: fakechain.Payee(750 + at/200), Amount: 50}, 2, false)
		}
		if changing && !n.ended() && changes.IntN(80) == 0 {
			c.change(changes, n.steps)
		}
		c.step(n, due)
	}
	return c.Finish(!c.stolen())
}

// batch makes a batch of some orders. It may pay a recipient the same amount twice.
func (c *Cluster) batch(order oracle.Order, i int, rng *rand.Rand) oracle.Order {
	if rng.IntN(3) > 0 {
		return order
	}
	var others []payment.Entry
	for j := range rng.IntN(4) {
		e := payment.Entry{To: fakechain.Payee(300 + 10*i + j), Amount: token.Units(uint64(10 + j))}
		c.Chain.Recipients[e.To] = []fakechain.Recipient{fakechain.Pays, fakechain.Pays, fakechain.Pays, fakechain.Pays,
			fakechain.Pays, fakechain.Pays, fakechain.LogsLess, fakechain.Reverts}[rng.IntN(8)]
		if rng.IntN(3) == 0 {
			e.To, e.Amount = order.To, token.Units(order.Amount)
		}
		others = append(others, e)
	}
	return order.Batched(others...)
}

// startElsewhere has clients ask for other assets, mostly under keys for which others ask for the default.
func (c *Cluster) startElsewhere(orders []oracle.Order, rng *rand.Rand, r Reduction) {
	for _, order := range orders {
		c.oracle.Order(order)
	}
	for i, n := range rng.Perm(len(orders)) {
		order := orders[n]
		order.Asset = assets[1].Coin()
		switch rng.IntN(3) {
		case 0:
			order.To, order.Entries, order.Amount = fakechain.Payee(500+i), nil, uint64(400+i)
		case 1:
			order.Key, order.To, order.Entries = fmt.Sprint("elsewhere", i), fakechain.Payee(600+i), nil
		}
		c.rails[1].oracle.Order(order)
		for j := range 1 + rng.IntN(2) {
			if r.Clients == 0 || 26+i*2+j < r.Clients {
				c.StartClient(fmt.Sprintf("client-elsewhere%d%c", i, 'a'+j), order, 1+rng.IntN(4), rng.IntN(3) == 0)
			}
		}
	}
}

// change changes the rules for payments, or has an order asked for once more under it.
func (c *Cluster) change(rng *rand.Rand, step int) {
	switch orders := c.orders(); rng.IntN(10) {
	case 0:
		c.Bar(fakechain.Payee([]int{0, 1, 2, 3, 100, 101}[rng.IntN(6)]), rng.IntN(2) == 0)
	case 1:
		c.Chain.Mute = !c.Chain.Mute
	case 2:
		c.Key.Maximum = token.Units([]uint64{0, 600}[rng.IntN(2)])
	case 3:
		c.Narrow = []uint64{0, 1, 2}[rng.IntN(3)]
		c.Set(token.Units([]uint64{0, 600}[rng.IntN(2)]))
	case 4:
		c.Damage([]error{settings.ErrDamaged, settings.ErrMissing, settings.ErrNewer}[rng.IntN(3)])
	default:
		if len(orders) > 0 {
			c.StartClient(fmt.Sprint("client-late", step), orders[rng.IntN(len(orders))], 1, false)
		}
	}
}

// startOperators has operators move coins between wallets and out of them.
func (c *Cluster) startOperators(rng *rand.Rand, r Reduction) {
	for i := range rng.IntN(3) {
		from := rng.IntN(c.Wallets)
		order := oracle.Order{Key: fmt.Sprintf("move%d", i), From: fakechain.Wallet(from),
			To: fakechain.Wallet(from + 1), Ether: rng.IntN(2) == 0 && c.Gas.Unit == 0}
		if from+1 == c.Wallets {
			order.To = fakechain.Payee(100 + i)
		}
		order.Amount = []uint64{0, 400 + uint64(i)}[rng.IntN(2)]
		if order.Ether {
			order.Amount = 300_000_000_000 + uint64(i) // a third of a wallet's: no-ops and bumps need the rest
		}
		if order.Ether && i == 1 {
			order.To, order.Amount, order.Call = fakechain.Payee(200), 0, []byte("approve")
		}
		for j := range 1 + rng.IntN(2) {
			if r.Clients == 0 || 12+i*2+j < r.Clients {
				c.StartClient(fmt.Sprintf("client-move%d%c", i, 'a'+j), order, 1+rng.IntN(6), rng.IntN(3) == 0)
			}
		}
	}
}

// A Reduction takes faults out of a seed, to find the few that violate an invariant. The zero Reduction takes none.
type Reduction struct {
	Without map[string]bool // no faults of these names
	Clients int             // at most so many; 0: no limit
	Steps   int             // no faults after so many steps; 0: no limit
}

// Shrink returns a Reduction with which a seed still violates an invariant: with fewer kinds of faults, fewer
// clients, and an earlier end of faults. fails says whether the seed does so with a Reduction.
func Shrink(fails func(Reduction) bool) Reduction {
	best := Reduction{Without: map[string]bool{}}
	try := func(change func(*Reduction)) {
		r := best
		r.Without = maps.Clone(best.Without)
		change(&r)
		if fails(r) {
			best = r
		}
	}
	for n := 1; n < 6; n++ {
		if best.Clients == 0 {
			try(func(r *Reduction) { r.Clients = n })
		}
	}
	for n := 25; n < 3_000 && best.Steps == 0; n = n * 5 / 4 {
		try(func(r *Reduction) { r.Steps = n })
	}
	names := slices.Concat(slices.Sorted(maps.Keys(faults)), fakechain.Subjects, slices.Sorted(maps.Keys(disturbances)),
		[]string{oneHost, unnoticed})
	for _, o := range scheduler.Faults() {
		names = append(names, o.String())
	}
	for _, name := range names {
		try(func(r *Reduction) { r.Without[name] = true })
	}
	return best
}

// routine are the operations that stay out of a trace when they go well.
var routine = []string{"Wallet", "Rules", "Compared", "SetCompared", "PendingTxs", "PendingTx", "Wallets", "Head", "Account", "Payment",
	"Fees", "Estimate", "Claim", "Receipts", "BlockHashes", "Reconcile"}

// Brief returns a trace without its routine.
func Brief(trace []string) []string {
	return slices.DeleteFunc(slices.Clone(trace), func(line string) bool {
		fields := strings.Fields(line)
		return len(fields) < 3 || strings.HasSuffix(line, "chain    block") ||
			strings.HasSuffix(line, ": applied") && slices.Contains(routine, fields[2])
	})
}

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
