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
	// alike is the factor within which healthy nodes agree: the base fee doubles in six blocks (EIP-1559).
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
// node answers, it returns the last agreed prices. If two of three or more nodes answer and most do not agree, the
// median of their tips and the last agreed tip counts: a looser bound would keep rising where nodes propose our tips.
// If no price was agreed for quoteAge, Fees first queries all again, waits longer, and takes the answers (of two, the
// tips) for agreed. A node that answers alone sets at most the last agreed tip or, if there is none, the base fee.
func (n Nodes) Fees(ctx context.Context) (Market, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, wait := range []time.Duration{patience, share} {
		markets, errs := gather(ctx, n, n.hurry(), wait, func(_ int, node Node) (Market, error) { return node.Fees(ctx) })
		market, ok := Market{}, true
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
			one, known := n.price(i, said, market.BaseFee, wait == share)
			*price.of(&market), ok = one, ok && known
		}
		if ok {
			return market, nil
		}
	}
	return Market{}, fmt.Errorf("%w: of %d nodes, too few give a tip or a base fee", ErrUnavailable, len(n))
}

// price chooses one of the nodes' prices. waited means that they are of a second query. It reports false if nothing
// bounds the price.
func (n Nodes) price(kind int, said []token.Amount, base token.Amount, waited bool) (token.Amount, bool) {
	larger, b := prices[kind].larger, breakerOf(n[0])
	price := median(said, larger)
	if b == nil {
		return price, larger || len(said) >= n.hurry()
	}
	b.quotes.mu.Lock()
	defer b.quotes.mu.Unlock()
	last := &b.quotes.last[kind]
	fresh, few := b.now().Sub(last.at) < quoteAge, len(n) > 2 && len(said) <= n.hurry()
	switch {
	case 2*len(near(said, price, alike)) > len(n), waited && !fresh && len(said) > 1 && (!few || !larger):
		last.price, last.at = price, b.now()
	case few && !fresh && len(said) > 1 && !waited:
		return price, false
	case few && !larger: // the median of the tips and the last agreed one (if these are two, the lower)
		known := !last.at.IsZero()
		if known {
			base = last.price
		}
		return median(append(said, base), false), known || !base.IsZero()
	case fresh:
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
