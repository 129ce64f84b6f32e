// Package memory keeps payments, wallets, webhooks and API keys in memory: what
// a stack on one machine and every simulation run on. It keeps the promises of
// the same ports as package dynamo, and links no test code.
package memory

import (
	"context"
	"sync"

	"remit/internal/chain"
	"remit/internal/payment"
	"remit/internal/store"
	"remit/internal/token"
	"remit/internal/wallet"
)

// Payments keeps payments and wallets in memory. It is safe for concurrent use,
// and every call takes effect at one instant. What it returns shares call data,
// signed bytes and metadata with what it keeps: they are never to be changed in
// place. Make one with NewPayments.
type Payments struct {
	mu         sync.Mutex
	payments   map[payment.ID]*record
	hashes     map[chain.Hash]payment.ID // empty for a no-op's
	lists      map[account][]*record     // committed ones, oldest first
	spent      map[day]token.Amount
	wallets    map[wallet.ID]*purse
	pendingTxs map[wallet.ID][]*pendingTx // in nonce order
}

var _ store.Store = (*Payments)(nil)

// A record is a stored payment. What p points to is replaced, never changed in
// place, since callers have copies of p.
type record struct {
	p       payment.Payment
	spoiled bool
}

// NewPayments returns an empty store.
func NewPayments() *Payments {
	return &Payments{
		payments:   map[payment.ID]*record{},
		hashes:     map[chain.Hash]payment.ID{},
		lists:      map[account][]*record{},
		spent:      map[day]token.Amount{},
		wallets:    map[wallet.ID]*purse{},
		pendingTxs: map[wallet.ID][]*pendingTx{},
	}
}

// enter locks the store, or says why a call of a caller who has gone does
// nothing.
func (s *Payments) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	return nil
}

// read returns what is in the record, or store.ErrUnreadable.
func (r *record) read() (payment.Payment, error) {
	if r.spoiled {
		return payment.Payment{}, store.ErrUnreadable
	}
	return r.p, nil
}

// Spoil makes a stored payment unreadable, as a damaged item would be.
func (s *Payments) Spoil(id payment.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.payments[id].spoiled = true
}

// SpoilPendingTx does the same to a stored pending transaction.
func (s *Payments) SpoilPendingTx(id wallet.ID, nonce uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i, found := s.find(id, nonce); found {
		s.pendingTxs[id][i].spoiled = true
	}
}
