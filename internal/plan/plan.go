package plan

import (
	"cmp"
	"math"
	"slices"

	"remit/internal/chains"
	"remit/internal/stack"
)

// A Load is a rate of payments, and who makes them on which chain.
type Load struct {
	Rate      float64 // payments a second
	Merchants float64 // that share them evenly; zero: one
	Endpoints float64 // of each merchant, among which its events are shared; zero: one
	Chain     Chain
	Wallets   float64 // that pay
	KMS       bool    // every wallet's key is in KMS
	Stack     Deployment
}

// A Wall is a limit, and how much of it a payment a second takes.
type Wall struct {
	Name  string
	Limit float64
	Each  float64 // of the limit, taken by one payment a second
	Raise string  // the quota, parameter or number that moves it; "" if nothing does
	Most  float64 // to which it can be raised; zero: any
}

// At returns the payments a second at which the wall stands.
func (w Wall) At() float64 { return w.Limit / w.Each }

// Needed returns what the limit must be for a rate, with room for a burst: as it is, if
// that does.
func (w Wall) Needed(rate float64) float64 {
	if rate*w.Each/share <= w.Limit {
		return w.Limit
	}
	return min(math.Ceil(rate*w.Each/share), cmp.Or(w.Most, math.Inf(1)))
}

// times returns the seconds between two rounds of settling, and between two blocks.
func (c Chain) times() (pause, block float64) {
	p, _ := chains.Of(c.ID)
	return p.Complete(stack.Config{}).BlockTime.Seconds(), p.BlockTime.Seconds()
}

// Window returns the payments that a wallet should have in flight: the chain's own window,
// and no more than a node holds of one sender. Beyond that, later nonces take the places of
// those that have to come first, and under load a wallet makes a fourth of its payments.
func (c Chain) Window() uint64 {
	p, _ := chains.Of(c.ID)
	return min(p.Window, c.Pool)
}

// Round returns the seconds from one round of settling to the next: the pause, the answers,
// and the reading of every payment that is not final yet.
func (l Load) Round() float64 {
	pause, _ := l.Chain.times()
	return pause + roundSeconds + l.Rate*l.Chain.FinalSeconds*PendingSeconds/(l.Stack.SettleGB/CoreGB)
}

// PerWallet returns the payments a second of one wallet: its window, once in the time
// that a round takes to see a block.
func (l Load) PerWallet() float64 {
	_, block := l.Chain.times()
	return float64(l.Chain.Window()) / max(l.Round(), block+roundSeconds)
}

// Planned returns the load with the memory of check-receipts and the wallets that it
// takes, with room for a burst.
func (l Load) Planned() Load {
	for _, w := range l.Walls() {
		if w.Name == settling {
			l.Stack.SettleGB = w.Needed(l.Rate)
		}
	}
	l.Wallets = max(4, math.Ceil(l.Rate/l.PerWallet()/share))
	return l
}

// Calls returns the calls a second to each node: of a payment an estimate, a broadcast, a
// receipt and its block's hash, and of each wallet the calls of a round.
func (l Load) Calls() float64 {
	busy := min(l.Wallets, l.Rate*l.Chain.FinalSeconds) // wallets with a pending payment
	waiting := min(l.Rate*l.Chain.FinalSeconds/max(busy, 1), ReceiptsAnyway)
	return 4*l.Rate + (2+busy*(CallsOfARound+waiting))/l.Round()
}

// settling names the wall of check-receipts.
const settling = "the processor of check-receipts, in GB of memory"

// Walls returns every limit that the load can meet, the nearest first.
func (l Load) Walls() []Wall {
	m, merchants := Measured, cmp.Or(l.Merchants, 1)
	pause, block := l.Chain.times()
	own := m.Writes - m.HookWrites
	all := []Wall{
		{"the wallets' window", l.Wallets, 1 / l.PerWallet(), "wallets: remit wallet create", 0},
		{"the wallets' partitions", l.Wallets * PartitionWrites, WalletWrites, "wallets: remit wallet create", 0},
		{"the API's own rate", 500, requests, "parameter ApiRate", 0},
		{"the account's rate at API Gateway", GatewayRate, requests, `quota "Throttle rate" of API Gateway`, 0},
		{"the account's concurrency", Environments, m.Post + m.Get + m.Hook/jobs, `quota "Concurrent executions" of Lambda`, 0},
		{settling, l.Stack.SettleGB, (SettleSeconds + l.Chain.FinalSeconds/(pause+roundSeconds)*PendingSeconds) * CoreGB, "MemorySize of CheckReceiptsFunction, in GB", mostGB},
		{"batches of webhooks at once", 20, m.Hook / jobs, "parameter WebhookConcurrency", 0},
		{"write units of a table that is new", NewTableWrites, own, "the table's warm throughput; it doubles by itself each half hour", 0},
		{"write units of a table", TableUnits, own, `quota "Table-level write throughput limit" of DynamoDB`, 0},
		{"read units of a table", TableUnits, m.Reads - m.HookReads + l.Chain.FinalSeconds/l.Round()*m.PendingReads, `quota "Table-level read throughput limit" of DynamoDB`, 0},
		{"one merchant's list", ListBuckets * PartitionWrites * merchants, ListWrites, "", 0},
		{"the log of one endpoint's webhooks", PartitionWrites * merchants * cmp.Or(l.Endpoints, 1), EndpointWrites, "", 0},
		{"the gas of the chain's blocks", l.Chain.BlockGas / block, PaymentGas, "", 0},
	}
	if l.KMS {
		all = append(all, Wall{"signatures of keys in KMS", Signatures, 1, `quota "Cryptographic operations (ECC) request rate" of KMS`, 0})
	}
	slices.SortStableFunc(all, func(a, b Wall) int { return cmp.Compare(a.At(), b.At()) })
	return all
}

// Month returns the payments of a month of the load, and the stack under it.
func (l Load) Month() (payments float64, s Deployment) {
	s = l.Stack
	s.Keys, s.Wallets, s.FinalSeconds, s.BlockSeconds = cmp.Or(l.Merchants, 1), l.Wallets, l.Chain.FinalSeconds, l.Round()
	s.LogBytes, s.OutBytes, s.Webhooks, s.Metrics = 2000, 3500, true, 16
	return l.Rate * SecondsPerMonth, s
}

// Ether returns the chain's coins that n payments burn, and those that payments in
// flight tie up in one wallet: a fifth more gas at twice the price (chain.GasLimit,
// chain.QuoteFees).
func (l Load) Ether(n float64) (burnt, tied float64) {
	each := PaymentGas * l.Chain.Price / 1e9
	return n * each, float64(l.Chain.Window()) * each * 1.2 * 2
}
