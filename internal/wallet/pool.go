package wallet

import (
	"sync"

	"remit/internal/token"
)

// A Pool chooses which wallet pays, from the last record of each that this
// process has seen. A choice made on stale knowledge costs a refused
// reservation, never safety.
type Pool struct {
	window uint64 // payments in flight per wallet
	draw   func(n int) int

	mu   sync.Mutex
	seen map[ID]Wallet
}

// NewPool returns a pool that knows no wallet yet. draw(n) returns a random
// number from 0 to n-1.
func NewPool(window uint64, draw func(n int) int) *Pool {
	return &Pool{window: window, draw: draw, seen: map[ID]Wallet{}}
}

// Saw keeps a wallet's record that a store has just returned.
func (p *Pool) Saw(w Wallet) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen[w.ID] = w
}

// Choose returns candidates in the order to try them: first the better of two
// random ones, which keeps the fullest wallet within O(log log n) of the mean
// (Mitzenmacher, "The Power of Two Choices in Randomized Load Balancing"),
// then the rest at random. need is the amount of the token that the payment takes.
func (p *Pool) Choose(chainID uint64, candidates []token.Address, need token.Amount) []ID {
	ids := make([]ID, len(candidates))
	for i, a := range candidates {
		ids[i] = ID{chainID, a}
	}
	for i := len(ids) - 1; i > 0; i-- {
		j := p.draw(i + 1)
		ids[i], ids[j] = ids[j], ids[i]
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(ids) > 1 && p.load(ids[1], need) < p.load(ids[0], need) {
		ids[0], ids[1] = ids[1], ids[0]
	}
	return ids
}

// load orders wallets: those that would refuse come last.
func (p *Pool) load(id ID, need token.Amount) uint64 {
	w, ok := p.seen[id]
	switch {
	case !ok:
		return 0
	case w.Paused != "" || w.Balance.Less(need):
		return 1 << 63
	default:
		return w.InFlight(p.window)
	}
}
