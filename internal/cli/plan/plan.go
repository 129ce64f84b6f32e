package plan

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/remit-payouts/remit/internal/evm/chains"
	"github.com/remit-payouts/remit/internal/evm/stack"
)

// A Load is a rate of payments by some merchants and wallets on a chain.
type Load struct {
	Rate      float64 // payments a second
	Merchants float64 // that share them evenly; zero: one
	Chain     Chain
	Wallets   float64 // that pay
	KMS       bool    // every wallet's key is in KMS
	Stack     Deployment
}

// A Wall is a limit, and how much of it one payment per second uses.
type Wall struct {
	Name  string
	Limit float64
	Each  float64 // of the limit, taken by one payment a second
	Raise string  // the quota, parameter or number that moves it; "" if nothing does
	Most  float64 // to which it can be raised; zero: any
}

// At returns the payments per second that reach the limit.
func (w Wall) At() float64 { return w.Limit / w.Each }

// Holds reports whether a rate stays below the limit, with room for a burst. A limit that
// cannot be raised further needs no room.
func (w Wall) Holds(rate float64) bool {
	if w.Raise == "" {
		return rate <= w.At()
	}
	return w.Needed(rate) <= w.Limit
}

// Needed returns the limit for a rate, with room for a burst, and at least the present one.
func (w Wall) Needed(rate float64) float64 {
	if rate*w.Each/usable <= w.Limit {
		return w.Limit
	}
	return min(math.Ceil(rate*w.Each/usable), cmp.Or(w.Most, math.Inf(1)))
}

// times returns the seconds between two rounds of settling, and between two blocks.
func (l Load) times() (pause, block float64) {
	p, _ := chains.Of(l.Chain.ID)
	return p.Complete(stack.Config{}).BlockTime.Seconds(), p.BlockTime.Seconds()
}

// Window returns the payments that a wallet should have in flight: the chain's own window, and no
// more than a node holds of one sender. Beyond that, later nonces take the places of earlier ones,
// and under load a wallet makes a fourth of its payments.
func (c Chain) Window() uint64 {
	p, _ := chains.Of(c.ID)
	return min(p.Window, c.Pool)
}

// Round returns the seconds from one round of settling to the next: the pause, the answers,
// and the reading of payments that are not final yet.
func (l Load) Round() float64 {
	pause, _ := l.times()
	apart := pause + roundSeconds
	return apart + l.Rate*apart*l.looks()*PendingSeconds/(l.Stack.SettleGB/CoreGB)
}

// looks returns how many rounds read a payment, at a low rate.
func (l Load) looks() float64 {
	pause, _ := l.times()
	return Looks(l.Chain.FinalSeconds, l.Chain.EpochSeconds, pause+roundSeconds)
}

// PerWallet returns the payments a second of one wallet: its window, once in the time
// that a round takes to see a block.
func (l Load) PerWallet() float64 {
	_, block := l.times()
	return float64(l.Chain.Window()) / max(l.Round(), block+roundSeconds)
}

// Planned returns the load with the memory of check-receipts and the wallets that it
// takes, with room for a burst.
func (l Load) Planned() Load {
	for _, w := range l.Walls() {
		if w.Raise == settling {
			l.Stack.SettleGB = w.Needed(l.Rate) / 1024
		}
	}
	l.Wallets = max(4, math.Ceil(l.Rate/l.PerWallet()/usable))
	return l
}

// Calls returns the calls a second to each node: of a payment an estimate, a broadcast, a
// receipt and its block's hash, and of each wallet the calls of a round.
func (l Load) Calls() float64 {
	busy := min(l.Wallets, l.Rate*l.Chain.FinalSeconds) // wallets with a pending payment
	waiting := min(l.Rate*l.Chain.FinalSeconds/max(busy, 1), ReceiptsAnyway)
	return 4*l.Rate + (2+busy*(CallsOfARound+waiting))/l.Round()
}

const (
	settling = "parameter CheckReceiptsMemory"
	creating = "wallets: remit wallet create"
	windows  = "the wallets' window"
)

// Walls returns every limit of the load, the nearest first.
func (l Load) Walls() []Wall {
	m, merchants, memory := Measured, cmp.Or(l.Merchants, 1), l.Stack.SettleGB*1024
	pause, block := l.times()
	own, reads := m.Writes-m.HookWrites, m.Reads-m.HookReads+l.looks()*m.PendingReads
	holds := l.Chain.FinalSeconds*PendingMB + max(l.Chain.EpochSeconds, pause+roundSeconds)*FinalMB // in check-receipts, of a payment a second
	all := []Wall{
		{windows, l.Wallets, 1 / l.PerWallet(), creating, 0},
		{"the wallets' partitions", l.Wallets * PartitionWrites, WalletWrites, creating, 0},
		{"the merchant cap, in percent of the windows", 50, 100 / (l.Wallets * l.PerWallet() * merchants), "setting MerchantCap", 100},
		{"the API's own rate", Small["Api"], requests, "parameter Size (Api)", 0},
		{"the account's rate at API Gateway", GatewayRate, requests, `quota "Throttle rate" of API Gateway`, 0},
		{"the account's concurrency", Environments, m.Post + m.Get + m.Hook/WebhookBatch,
			`quota "Concurrent executions" of Lambda`, 0},
		{"the concurrency reserved for send-payment", Small["SendPayment"], m.Post, "parameter Size (SendPayment)", 0},
		{"the concurrency reserved for the authorizer", Small["Authorizer"], requests * m.Auth, "parameter Size (Authorizer)", 0},
		{"the processor and the memory of check-receipts, in MB", memory, max((SettleSeconds+l.looks()*PendingSeconds)*CoreGB*1024, holds),
			settling, mostGB * 1024},
		{"batches of webhooks at once", Small["WebhookBatches"], m.Hook / WebhookBatch, "parameter Size (WebhookBatches)", 0},
		{"write units of a table that is new", NewTableWrites, own, "the table's warm throughput; it doubles by itself each half hour", 0},
		{"write units of a table", TableUnits, own, `quota "Table-level write throughput limit" of DynamoDB`, 0},
		{"read units of a table", TableUnits, reads, `quota "Table-level read throughput limit" of DynamoDB`, 0},
		{"one merchant's list", ListBuckets * PartitionWrites * merchants, ListWrites, "", 0},
		{"the log of one endpoint's webhooks", PartitionWrites * merchants, EndpointWrites, "", 0},
		{"the gas of the chain's blocks", l.Chain.BlockGas / block, cmp.Or(l.Chain.Gas, PaymentGas), "", 0},
	}
	if l.KMS {
		all = append(all, Wall{"signatures of keys in KMS", Signatures, 1, `quota "Cryptographic operations (ECC) request rate" of KMS`, 0})
	}
	slices.SortStableFunc(all, func(a, b Wall) int { return cmp.Compare(a.At(), b.At()) })
	return all
}

// Short returns the limits that the load exceeds, assuming planned memory and wallets.
func (l Load) Short() []Wall {
	planned := l.Planned()
	least := planned.Wallets
	planned.Wallets = max(l.Wallets, least)
	walls := planned.Walls()
	for i, w := range walls {
		switch w.Raise {
		case settling:
			walls[i].Limit = l.Stack.SettleGB * 1024
		case creating:
			walls[i].Limit, walls[i].Each = l.Wallets, (least-0.5)*usable/l.Rate // of which it needs least, in whole wallets
		}
	}
	return slices.DeleteFunc(walls, func(w Wall) bool {
		return w.Holds(l.Rate) || w.Raise == creating && w.Name != windows
	})
}

// Advice returns how to raise the limit for a rate, with the old and new values.
func (w Wall) Advice(rate float64) string {
	if w.Raise == "" {
		return "nothing moves it"
	}
	return fmt.Sprintf("%s, from %s to %s", w.Raise, Human(w.Limit), Human(w.Needed(rate)))
}

// Month returns the payments of a month of the load, and the stack under it.
func (l Load) Month() (payments float64, s Deployment) {
	s = l.Stack
	s.Keys, s.Wallets, s.FinalSeconds, s.BlockSeconds = cmp.Or(l.Merchants, 1), l.Wallets, l.Chain.FinalSeconds, l.Round()
	s.EpochSeconds, s.KMS = l.Chain.EpochSeconds, l.KMS
	s.LogBytes, s.OutBytes, s.Webhooks, s.Nodes = 2000, 3500, true, 2
	return l.Rate * SecondsPerMonth, s
}

// GasInToken reports whether the token pays gas: on Arc as USDC, on Tempo as any of its stablecoins.
func (c Chain) GasInToken() bool {
	p, _ := chains.Of(c.ID)
	return p.Gas.InToken
}

// Ether returns the chain's coins that n payments burn, and the coins that payments in flight tie
// up in one wallet: a fifth more gas at twice the price (chain.GasLimit, chain.QuoteFees). Where the token
// pays gas these are tokens, and each payment takes whole millionths, as of a token with 6 decimals.
func (l Load) Ether(n float64) (burnt, tied float64) {
	each := cmp.Or(l.Chain.Gas, PaymentGas) * l.Chain.Price // gwei
	most := each * 1.2 * 2
	if l.Chain.GasInToken() {
		each, most = math.Ceil(each/1000)*1000, math.Ceil(most/1000)*1000
	}
	return n * each / 1e9, float64(l.Chain.Window()) * most / 1e9
}
