package wallet

import (
	"slices"
	"sync"
	"time"

	"github.com/remit-payouts/remit/internal/evm/token"
)

// A Pool chooses which wallet pays, from the last record of each that this
// process has seen. A choice made on stale knowledge costs a refused
// reservation, never safety.
type Pool struct {
	draw func(n int) int

	mu    sync.Mutex
	seen  map[ID]Wallet
	rests map[ID]rest
}

// A rest is the time in which a wallet that cannot pay is tried last. since is the
// begin of the first of its rests that follow each other for one reason.
type rest struct {
	why          string
	since, until time.Time
}

const (
	// restTime is how long a wallet rests before it is tried again.
	restTime = time.Minute
	// apart is how long after the end of a rest another still follows it.
	apart = 10 * time.Minute
)

// NewPool returns a pool that knows no wallet yet. draw(n) returns a random
// number from 0 to n-1.
func NewPool(draw func(n int) int) *Pool {
	return &Pool{draw: draw, seen: map[ID]Wallet{}, rests: map[ID]rest{}}
}

// Saw keeps a wallet's record that a store has just returned.
func (p *Pool) Saw(w Wallet) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen[w.ID] = w
}

// Rest puts a wallet that cannot pay behind the others for a minute from now. It
// returns since when that has been so, for the same reason.
func (p *Pool) Rest(id ID, why string, now time.Time) (since time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.rests[id]
	if r.why != why || now.Sub(r.until) > apart {
		r.why, r.since = why, now
	}
	r.until = now.Add(restTime)
	p.rests[id] = r
	return r.since
}

// Wake ends a wallet's rest: it can pay.
func (p *Pool) Wake(id ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.rests, id)
}

// Choose returns candidates in the order to try them: first the better of two random ones, which
// keeps the fullest wallet within O(log log n) of the mean (Mitzenmacher, "The Power of Two Choices
// in Randomized Load Balancing"), then the others at random, and last of all the wallets that rest
// now. need is the amount of the token that the payment takes.
func (p *Pool) Choose(chainID uint64, candidates []token.Address, need token.Amount, now time.Time) []ID {
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
	awake := func(id ID) bool { return !p.rests[id].until.After(now) }
	ids = slices.Concat(only(ids, awake), only(ids, func(id ID) bool { return !awake(id) }))
	if len(ids) > 1 && awake(ids[1]) && p.load(ids[1], need) < p.load(ids[0], need) {
		ids[0], ids[1] = ids[1], ids[0]
	}
	return ids
}

// only returns the wallets of which keep is true, in their order.
func only(ids []ID, keep func(ID) bool) []ID {
	return slices.DeleteFunc(slices.Clone(ids), func(id ID) bool { return !keep(id) })
}

// load orders wallets: wallets that would refuse come last.
func (p *Pool) load(id ID, need token.Amount) uint64 {
	w, ok := p.seen[id]
	switch {
	case !ok:
		return 0
	case w.Paused != "" || w.Damaged != "" || w.Balance.Less(need):
		return 1 << 63
	default:
		return 1<<62 + w.NextNonce - w.Ceiling // below it: how many nonces are left
	}
}
