package plan

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/remit-payouts/remit/internal/deployment/chains"
	"github.com/remit-payouts/remit/internal/deployment/stack"
)

// A Load is a rate of payments by some merchants and wallets on a chain.
type Load struct {
	Rate, Wallets float64 // payments a second, of so many wallets
	Merchants     float64 // that share them evenly; zero: one
	KMS           bool    // every wallet's key is in KMS
	Chain         Chain
	Stack         Deployment
}

// A Wall is a limit, and how much of it one payment per second uses.
type Wall struct {
	Name, Raise string  // Raise is the quota, parameter or number that moves it; "" if nothing does
	Limit, Each float64 // Each is the part of the limit that one payment a second takes
}

// At returns the payments per second that reach the limit.
func (w Wall) At() float64 { return w.Limit / w.Each }

// Needed returns the limit for a rate, with room for a burst, and at least the present one.
func (w Wall) Needed(rate float64) float64 {
	return max(w.Limit, math.Ceil(rate*w.Each/usable))
}

// profile returns the window, the seconds between two rounds, how many of these read a payment at a low rate, and the
// seconds between two blocks. In a window above a node's pool, a busy wallet makes a fourth of its payments.
func (c Chain) profile() (window, apart, looks, block float64) {
	p, _ := chains.Of(c.ID)
	apart = p.Complete(stack.Config{}).BlockTime.Seconds() + roundSeconds
	return float64(min(p.Window, c.Pool)), apart, Looks(c.FinalSeconds, c.EpochSeconds, apart), p.BlockTime.Seconds()
}

// Round returns the seconds from one round to the next: pause, answers, and reading payments that are not final.
func (l Load) Round() float64 {
	_, apart, looks, _ := l.Chain.profile()
	return apart + l.Rate*apart*looks*pendingSeconds/(l.Stack.SettleGB/coreGB)
}

// PerWallet returns the payments a second of one wallet: a window in the time that a round takes to see a block.
func (l Load) PerWallet() float64 {
	window, _, _, block := l.Chain.profile()
	return window / max(l.Round(), block+roundSeconds)
}

// Planned returns the load with the memory and the wallets that it takes, with room for a burst.
func (l Load) Planned() Load {
	walls := l.Walls()
	memory := slices.IndexFunc(walls, func(w Wall) bool { return w.Raise == settling })
	l.Stack.SettleGB = min(walls[memory].Needed(l.Rate)/1024, mostGB)
	l.Wallets = max(4, math.Ceil(l.Rate/l.PerWallet()/usable))
	return l
}

// ListBuckets is how many partitions one merchant's list has (dynamo.ListBuckets).
const ListBuckets = 16

const settling, creating = "parameter CheckReceiptsMemory", "wallets: remit wallet create"

// Walls returns every limit of the load, the nearest first.
func (l Load) Walls() []Wall {
	m, merchants := Measured, cmp.Or(l.Merchants, 1)
	_, apart, looks, block := l.Chain.profile()
	own := m.Writes - m.HookWrites
	// Megabytes of check-receipts for a payment a second: for its processor, and for its memory.
	memory := max((settleSeconds+looks*pendingSeconds)*coreGB*1024,
		l.Chain.FinalSeconds*pendingMB+max(l.Chain.EpochSeconds, apart)*finalMB)
	all := []Wall{
		{"the wallets' window", creating, l.Wallets, 1 / l.PerWallet()},
		{"the merchant cap, in percent of the windows", "setting MerchantCap",
			50, 100 / (l.Wallets * l.PerWallet() * merchants)},
		{"the API's own rate", "parameter Size (Api)", Small["Api"], requests},
		{"the account's rate at API Gateway", `quota "Throttle rate" of API Gateway`, gatewayRate, requests},
		{"the account's concurrency", `quota "Concurrent executions" of Lambda`,
			environments, m.Post + m.Get + m.Hook/webhookBatch},
		{"the concurrency reserved for send-payment", "parameter Size (SendPayment)", Small["SendPayment"], m.Post},
		{"the concurrency reserved for the authorizer", "parameter Size (Authorizer)",
			Small["Authorizer"], requests * m.Auth},
		{"the processor and the memory of check-receipts, in MB", settling, l.Stack.SettleGB * 1024, memory},
		{"batches of webhooks at once", "parameter Size (WebhookBatches)",
			Small["WebhookBatches"], m.Hook / webhookBatch},
		{"write units of a table that is new", "the table's warm throughput; it doubles by itself each half hour",
			newTableWrites, own},
		{"write units of a table", `quota "Table-level write throughput limit" of DynamoDB`, tableUnits, own},
		{"read units of a table", `quota "Table-level read throughput limit" of DynamoDB`,
			tableUnits, m.Reads - m.HookReads + looks*m.PendingReads},
		{"one merchant's list", "", ListBuckets * partitionWrites * merchants, listWrites},
		{"the log of one endpoint's webhooks", "", partitionWrites * merchants, endpointWrites},
		{"the gas of the chain's blocks", "", l.Chain.BlockGas / block, l.Chain.Gas},
		{"signatures of keys in KMS", `quota "Cryptographic operations (ECC) request rate" of KMS`,
			signatures, map[bool]float64{true: 1}[l.KMS]},
	}
	slices.SortStableFunc(all, func(a, b Wall) int { return cmp.Compare(a.At(), b.At()) })
	return all
}

// Month returns the payments of a month of the load, and the stack under it.
func (l Load) Month() (payments float64, s Deployment) {
	s = l.Stack
	s.Keys, s.Wallets, s.KMS, s.BlockSeconds = cmp.Or(l.Merchants, 1), l.Wallets, l.KMS, l.Round()
	s.FinalSeconds, s.EpochSeconds, s.Webhooks = l.Chain.FinalSeconds, l.Chain.EpochSeconds, true
	return l.Rate * SecondsPerMonth, s
}

// Command is `remit plan`. It only computes, and needs no stack.
type Command struct {
	Rate      float64 `required:"" placeholder:"N" help:"Payments per second in the busiest minutes."`
	Chain     string  `required:"" help:"ethereum, base, polygon, arc or tempo."`
	Merchants float64 `default:"1" help:"Merchants that share the rate evenly."`
	Amount    float64 `default:"100" help:"Whole tokens of an average payment."`
	Hours     float64 `default:"24" help:"How long the wallets pay between refills."`
	KMS       bool    `name:"kms" help:"The wallets' keys are in KMS."`
}

// Run prints the plan. An error names the wrong argument and its range.
func (c *Command) Run(out io.Writer) error {
	chain, known := Chains[strings.ToLower(c.Chain)]
	if !known {
		return fmt.Errorf("--chain=%s: use ethereum, base, polygon, arc or tempo; docs/scale.md has others", c.Chain)
	}
	if !(c.Rate > 0) || c.Rate > 1e6 || !(c.Merchants >= 1) || !(c.Amount >= 0) || !(c.Hours > 0) {
		return fmt.Errorf("use --rate above 0, at most 1000000, --merchants from 1, --amount from 0, --hours above 0")
	}
	l := Load{Rate: c.Rate, Merchants: c.Merchants, Chain: chain, KMS: c.KMS, Stack: Default}.Planned()
	n, s := l.Month()
	paid := c.Rate * c.Hours * 3600 / l.Wallets // by each wallet between two refills
	window, _, _, _ := chain.profile()
	// Payments in flight tie up a fifth more gas than they burn, at twice the price (chain.GasLimit, chain.QuoteFees).
	each := chain.Gas * chain.Price / 1e9
	burnt, tied := paid*each, window*each*1.2*2
	// Of a payment an estimate, a broadcast, a receipt and a block's hash; of a wallet with a pending one, a round's.
	calls := 4*c.Rate + (2+min(l.Wallets, c.Rate*chain.FinalSeconds)*callsOfARound)/l.Round()
	holds := fmt.Sprintf("%s tokens and %s %s", human(paid*c.Amount), human(burnt+tied), chain.Ether)
	if chain.Ether == "" {
		holds = human(paid*c.Amount+burnt+tied) + " tokens, gas among them"
	}
	million := s.PerMillion(n, Measured)
	fmt.Fprintf(out, `%s payments a second on %s, all day: %s a month

wallets            %s, each for %.1f payments a second, with NonceWindow=%v
  each holds       %s, refilled every %s h
calls to each node %s a second, in rounds %s s apart
AWS                $%s a month, $%.2f a million payments
gas                $%s a month, at %v gwei and $%v each

`, human(c.Rate), c.Chain, human(n), human(l.Wallets), l.PerWallet(), window, holds, human(c.Hours), human(calls),
		human(l.Round()), human(million*n/1e6), million, human(burnt/paid*n*chain.Dollars), chain.Price, chain.Dollars)
	for _, w := range l.Walls() {
		needed := w.Needed(c.Rate)
		if w.Raise == settling { // the plan has the memory, and the wallets
			w.Limit, needed = Default.SettleGB*1024, l.Stack.SettleGB*1024
		}
		if w.Raise == "" && c.Rate > w.At() {
			fmt.Fprintf(out, "cannot:  %s ends at %s payments a second\n", w.Name, human(w.At()))
		} else if w.Raise != "" && w.Raise != creating && needed > w.Limit {
			fmt.Fprintf(out, "raise:   %s, from %s to %s\n", w.Raise, human(w.Limit), human(needed))
		}
	}
	return nil
}

// human writes a number with three significant digits, or with all digits before the point, in groups of three.
func human(v float64) string {
	if v < 100 {
		short, _ := strconv.ParseFloat(fmt.Sprintf("%.3g", v), 64)
		return strconv.FormatFloat(short, 'f', -1, 64)
	}
	text := fmt.Sprintf("%.0f", v)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
