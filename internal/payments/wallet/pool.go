package wallet

import (
	"sort"
	"sync"
	"time"

	"github.com/remit-payouts/remit/internal/evm/token"
)

// A Pool chooses the wallet that pays, from the newest record of each wallet that this
// process has read. A stale record costs a refused reservation, never safety.
type Pool struct {
	draw func(n int) int

	mu        sync.Mutex
	observed  map[ID]Wallet
	cooldowns map[ID]cooldown
}

// A cooldown is a minute in which a wallet that cannot pay is tried last. since is when
// the first of consecutive cooldowns for the same reason began.
type cooldown struct {
	why          string
	since, until time.Time
}

const (
	cooldownTime = time.Minute
	// consecutive is the longest time between two consecutive cooldowns.
	consecutive = 10 * time.Minute
)

// NewPool returns a pool without records. draw(n) returns a random number from 0 to n-1.
func NewPool(draw func(n int) int) *Pool {
	return &Pool{draw: draw, observed: map[ID]Wallet{}, cooldowns: map[ID]cooldown{}}
}

// Observe keeps a wallet's record that a store has just returned.
func (p *Pool) Observe(w Wallet) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.observed[w.ID] = w
}

// Refusal returns why a wallet's record refuses a need; nil if it would not, or there is none.
func (p *Pool) Refusal(id ID, need Need) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	w, ok := p.observed[id]
	if !ok {
		return nil
	}
	return w.Refusal(need)
}

// CoolDown puts a wallet that cannot pay behind the others for a minute. It returns
// when the first of its consecutive cooldowns for that reason began.
func (p *Pool) CoolDown(id ID, why string, now time.Time) (since time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.cooldowns[id]
	if c.why != why || now.Sub(c.until) > consecutive {
		c.why, c.since = why, now
	}
	c.until = now.Add(cooldownTime)
	p.cooldowns[id] = c
	return c.since
}

// EndCooldown ends the cooldown of a wallet that can pay again.
func (p *Pool) EndCooldown(id ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.cooldowns, id)
}

// Choose returns candidates in the order to try them. The first is the better of two random
// ones, which keeps the fullest wallet within O(log log n) of the mean (Mitzenmacher, "The
// Power of Two Choices in Randomized Load Balancing"). The others follow at random, wallets
// in cooldown last. need is the amount of the token that the payment takes.
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
	ready := func(id ID) bool { return !p.cooldowns[id].until.After(now) }
	sort.SliceStable(ids, func(i, j int) bool { return ready(ids[i]) && !ready(ids[j]) })
	if len(ids) > 1 && ready(ids[1]) && p.load(ids[1], need) < p.load(ids[0], need) {
		ids[0], ids[1] = ids[1], ids[0]
	}
	return ids
}

// load orders wallets: a wallet that would refuse comes last.
func (p *Pool) load(id ID, need token.Amount) uint64 {
	w, ok := p.observed[id]
	switch {
	case !ok:
		return 0
	case w.Paused != "" || w.Damaged != "" || w.Balance.Less(need):
		return 1 << 63
	default:
		return 1<<62 + w.NextNonce - w.Ceiling // below 1<<62 by the number of nonces left
	}
}
