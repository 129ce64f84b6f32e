package chain

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/remit-payouts/remit/internal/evm/token"
)

const (
	// alike is the factor within which healthy nodes agree on a price: the base fee takes six
	// blocks to double (EIP-1559, an eighth a block).
	alike = 2
	// beyond is the largest factor between a price and the last agreed price, unless most nodes agree. The last agreed
	// price counts for quoteAge: 20 blocks of 12 s, in which EIP-1559 lets Ethereum's base fee rise tenfold.
	beyond, quoteAge = 10, 4 * time.Minute
)

// prices are the numbers of a quote. Between two middle values, the larger base fee and L1 fee
// count, because they only tie up ether; and the smaller tip, because it is paid.
var prices = [...]struct {
	of     func(*Market) *token.Amount
	larger bool
}{
	{func(m *Market) *token.Amount { return &m.BaseFee }, true},
	{func(m *Market) *token.Amount { return &m.L1Fee }, true},
	{func(m *Market) *token.Amount { return &m.Tip }, false},
}

// quotes has the prices on which most nodes last agreed, in the order of prices.
type quotes struct {
	mu   sync.Mutex
	last [len(prices)]struct {
		price token.Amount
		at    time.Time
	}
}

// Fees queries every node for the price of gas in the next block, and returns the median of the prompt answers, or
// ErrUnavailable. It leaves out watched nodes far from the last agreed prices, unless most nodes agree; if no other
// node answers, it returns the last agreed prices. If at most two of three or more nodes answer and no majority agrees,
// the higher tip counts, up to the lower or the last agreed tip. More would rise each time where our own transactions
// set the tips that nodes propose. If none was agreed, it waits for the others; without them the bound is the base fee.
func (n Nodes) Fees(ctx context.Context) (Market, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, wanted := range []int{n.hurry(), len(n)} {
		markets, errs := gather(ctx, n, wanted, patience, func(_ int, node Node) (Market, error) { return node.Fees(ctx) })
		market, ok := Market{}, false
		for i, price := range prices {
			var said []token.Amount
			for j, m := range markets {
				if errs[j] == nil {
					said = append(said, *price.of(&m))
				}
			}
			if len(said) == 0 {
				return Market{}, unavailable(errs)
			}
			*price.of(&market), ok = n.price(i, said, market.BaseFee, wanted)
		}
		if ok { // of the tip, the last
			return market, nil
		}
	}
	return Market{}, fmt.Errorf("%w: of %d nodes, too few give a tip or a base fee", ErrUnavailable, len(n))
}

// price chooses one of the nodes' prices, once wanted nodes were waited for. It reports false if nothing bounds the tip:
// base counts if all were.
func (n Nodes) price(kind int, said []token.Amount, base token.Amount, wanted int) (token.Amount, bool) {
	larger, b := prices[kind].larger, breakerOf(n[0])
	price := median(said, larger)
	if b == nil {
		return price, larger || len(said) >= n.hurry()
	}
	b.quotes.mu.Lock()
	defer b.quotes.mu.Unlock()
	last := &b.quotes.last[kind]
	switch {
	case 2*len(near(said, price, alike)) > len(n):
		last.price, last.at = price, b.now()
	case !larger && len(n) > 2 && len(said) <= n.hurry():
		known := !last.at.IsZero()
		if known {
			base = last.price
		}
		if len(said) > 1 { // the lower is at most an honest node's
			base = median([]token.Amount{base, median(said, false)}, true)
		}
		return median([]token.Amount{median(said, true), base}, false), known || wanted == len(n) && !base.IsZero()
	case b.now().Sub(last.at) < quoteAge:
		if said = near(said, last.price, beyond); len(said) == 0 {
			return last.price, true
		}
		return median(said, larger), true
	}
	return price, true
}

// near returns the amounts within factor of price, in either direction.
func near(said []token.Amount, price token.Amount, factor uint64) (all []token.Amount) {
	for _, a := range said {
		if !a.ScaleUp(factor, 1).Less(price) && !price.ScaleUp(factor, 1).Less(a) {
			all = append(all, a)
		}
	}
	return all
}

// median returns the middle amount; of two middle ones, the larger or the smaller.
func median(amounts []token.Amount, larger bool) token.Amount {
	sorted := slices.SortedFunc(slices.Values(amounts), token.Amount.Cmp)
	if larger {
		return sorted[len(sorted)/2]
	}
	return sorted[(len(sorted)-1)/2]
}
