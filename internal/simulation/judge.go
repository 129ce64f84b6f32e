package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"remit/internal/chain"
	"remit/internal/payment"
	"remit/internal/store"
	"remit/internal/token"
	"remit/internal/wallet"
)

// A judge holds what happened against what was promised. It looks only at the
// blocks of the chain, the tables, the answers that clients got and the
// announcements that arrived, never at what the engine thinks of itself.
type judge struct {
	w *World

	mu       sync.Mutex
	broken   []string // promises
	requests map[string]Request
	asks     map[string]int // handlers started, by key
	answers  map[string][]Answer
	events   map[string]announcement
	noops    map[chain.Hash]bool            // ever stored
	foreign  map[chain.Hash]bool            // signed by somebody else who has our key
	taken    map[pendingTxKey]bool          // nonces that a block took of theirs
	wrong    map[chain.Hash]map[string]bool // nodes that said they will never take some bytes
	lost     map[string]bool                // keys that tables restored from the past know nothing of
	wanting  bool                           // payments may fail for want of coins: the test means them to
	ceilings map[token.Address]uint64
}

type pendingTxKey struct {
	wallet token.Address
	nonce  uint64
}

type announcement struct {
	merchant, mode, kind, body string
	times                      int
}

func (j *judge) init(w *World) {
	j.w = w
	j.requests, j.asks, j.answers = map[string]Request{}, map[string]int{}, map[string][]Answer{}
	j.events, j.noops = map[string]announcement{}, map[chain.Hash]bool{}
	j.lost, j.wrong = map[string]bool{}, map[chain.Hash]map[string]bool{}
	j.foreign, j.taken, j.ceilings = map[chain.Hash]bool{}, map[pendingTxKey]bool{}, map[token.Address]uint64{}
	w.Chain.Mined = j.mined
}

// breach records a broken promise.
func (j *judge) breach(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	j.w.trace("JUDGE", line)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.broken = append(j.broken, line)
}

// asked counts a request in, and returns whether its payment is committed
// already.
func (j *judge) asked(r Request) bool {
	p, err := j.w.Store.Payment(context.Background(), r.id())
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, ok := j.requests[r.Key]; !ok {
		j.requests[r.Key] = r
	}
	j.asks[r.Key]++
	return err == nil && p.State != payment.Prepared
}

// answered keeps what a request was told. One that came when its payment was
// committed cannot be told that nothing was started.
func (j *judge) answered(a Answer, committed bool) {
	if committed && a.Refused() {
		j.breach("promise 2: %s was committed, and a retry was told that nothing was started: %v", a.Request.Key, a.Err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.answers[a.Request.Key] = append(j.answers[a.Request.Key], a)
}

// steal has somebody else who holds the key use a nonce, and knows it for
// theirs. What they take, payments may lack.
func (j *judge) steal(from token.Address, nonce uint64, amount token.Amount) {
	j.foreign[j.w.Chain.Foreign(from, nonce, amount)] = true
	j.wanting = true
}

func (j *judge) announced(merchant, mode, id, kind string, body []byte) {
	j.mu.Lock()
	now := announcement{merchant, mode, kind, string(body), 1}
	before, again := j.events[id]
	now.times += before.times
	j.events[id] = now
	j.mu.Unlock()
	if before.times = now.times; again && before != now {
		j.breach("I7: event %s was announced in two forms", id)
	}
}

// noop remembers what was stored as a no-op: its pending transaction is deleted later.
func (j *judge) noop(s wallet.PendingTx) { j.noops[s.Hash()] = true }

// ours reports whether the tables know a transaction.
func (j *judge) ours(h chain.Hash) bool {
	if j.noops[h] {
		return true
	}
	p, err := j.w.Store.PaymentByHash(context.Background(), h)
	if err != nil {
		return errors.Is(err, store.ErrUnreadable) // damaged, and ours
	}
	for _, known := range p.Hashes() {
		if known == h {
			return true
		}
	}
	return false
}

// sending checks bytes on their way to a node.
func (j *judge) sending(h chain.Hash) {
	if !j.ours(h) {
		j.breach("I2: bytes were sent that are not stored: %s", h)
	}
}

// refused remembers that a node will never take some bytes.
func (j *judge) refused(node string, h chain.Hash) {
	if j.wrong[h] == nil {
		j.wrong[h] = map[string]bool{}
	}
	j.wrong[h][node] = true
}

// hopeless reports whether every node said so of an attempt that pays.
func (j *judge) hopeless(p payment.Payment) bool {
	return slices.ContainsFunc(p.Attempts, func(a payment.Attempt) bool {
		return !a.Noop && len(j.wrong[a.Hash]) == len(j.w.Chain.Nodes)
	})
}

// mined checks a transaction as a block takes it.
func (j *judge) mined(from token.Address, nonce uint64, h chain.Hash) {
	if j.foreign[h] {
		j.taken[pendingTxKey{from, nonce}] = true
	} else if !j.ours(h) {
		j.breach("I2: nonce %d of %s was mined and its hash is not stored", nonce, short(from))
	}
}

// deleting checks a pending transaction that is about to go: its payment has ended, and
// everybody was told.
func (j *judge) deleting(id wallet.ID, nonce uint64) {
	s, err := j.w.Store.PendingTx(context.Background(), id, nonce)
	if err != nil || s.Noop() {
		return
	}
	p, err := j.w.Store.Payment(context.Background(), s.Payment)
	switch {
	case err != nil || !p.State.Final():
		j.breach("I3: pending transaction %s goes while its payment is %s (%v)", at(id, nonce), p.State, err)
	case j.events[p.Event.ID].times == 0:
		j.breach("I7: pending transaction %s goes before its payment was announced", at(id, nonce))
	}
}

// owners checks that every nonce between what is final on the chain and
// next_nonce is held by exactly one reservation or pending transaction.
func (j *judge) owners(id wallet.ID) {
	ctx := context.Background()
	w, err := j.w.Store.Wallet(ctx, id)
	if err != nil {
		return
	}
	pendingTxs, unreadable, err := j.w.Store.PendingTxs(ctx, id)
	if err != nil || unreadable > 0 {
		return
	}
	if w.Ceiling < j.ceilings[id.Address] {
		j.breach("the ceiling of %s fell from %d to %d", short(id.Address), j.ceilings[id.Address], w.Ceiling)
	}
	j.ceilings[id.Address] = w.Ceiling
	if most := j.w.Chain.most[id.Address] + j.w.Window; w.NextNonce > most {
		j.breach("next nonce of %s is %d: more than %d are in flight", short(id.Address), w.NextNonce, j.w.Window)
	}
	held := map[uint64]payment.ID{} // who reserves or fills a nonce; "" fills it with a no-op
	for p, l := range w.Reservations {
		if other, twice := held[l.Nonce]; twice {
			j.breach("I3: nonce %s is reserved to %s and %s", at(id, l.Nonce), other, p)
		}
		held[l.Nonce] = p
	}
	for _, s := range pendingTxs {
		if p, reserved := held[s.Nonce]; reserved && !s.Noop() && p != s.Payment {
			j.breach("I3: nonce %s is reserved to %s and has the pending transaction of %s", at(id, s.Nonce), p, s.Payment)
		}
		held[s.Nonce] = s.Payment
	}
	for nonce := j.w.Chain.Count(id.Address, j.w.Depth); nonce < w.NextNonce; nonce++ {
		if _, ok := held[nonce]; !ok {
			j.breach("I3: nonce %s has no owner, next is %d", at(id, nonce), w.NextNonce)
		}
	}
}
