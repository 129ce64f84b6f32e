// Package memory keeps payments, wallets, webhooks and API keys in memory, for a stack on one machine and for every
// simulation. It keeps the promises of the same ports as package dynamo, and links no test code.
package memory

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/proposal"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// Payments is a store.Store in memory. It is safe for concurrent use, and every call takes effect at one instant. The
// values it returns share call data, signed bytes and metadata with the stored ones: callers must not change these in
// place. Make one with NewPayments.
type Payments struct {
	mu sync.Mutex
	tables
	places map[store.Place]bool
	audit  []store.Act // as they were appended
}

// tables are the part of a store that an image has.
type tables struct {
	payments map[payment.ID]*record
	hashes   map[chain.Hash]payment.ID // empty for a no-op's
	guards   map[string]store.Guard
	spent    map[day]tally
	denied   map[token.Address]store.Denial
	wallets  map[wallet.ID]*purse
	registry map[wallet.ID]wallet.Registration
	txs      map[wallet.ID][]*pendingTx      // in nonce order
	compared map[token.Coin]store.Comparison // empty in an image, which is of another table
	rails    []rail
}

var _ store.Store = (*Payments)(nil)

// A record is a stored payment. Slices and maps in p are replaced, never
// changed in place, since callers have copies of p.
type record struct {
	p        payment.Payment
	proposal proposal.Proposal // of p.Proposal; without its payment
	next     time.Time         // of the proposal when it was written last: a commit does not move its place
	spoiled  bool
}

// NewPayments returns an empty store.
func NewPayments() *Payments {
	return &Payments{places: map[store.Place]bool{}, tables: tables{
		payments: map[payment.ID]*record{},
		hashes:   map[chain.Hash]payment.ID{},
		guards:   map[string]store.Guard{},
		spent:    map[day]tally{},
		denied:   map[token.Address]store.Denial{},
		wallets:  map[wallet.ID]*purse{},
		registry: map[wallet.ID]wallet.Registration{},
		txs:      map[wallet.ID][]*pendingTx{},
		compared: map[token.Coin]store.Comparison{},
	}}
}

// locked runs f with the store locked, or returns ctx's error if it has ended, or why the arguments are unfit.
func (s *Payments) locked(ctx context.Context, f func() error, unfit ...error) error {
	if err := cmp.Or(append(unfit, ctx.Err())...); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return f()
}

// answer is locked for a call that returns something.
func answer[T any](ctx context.Context, s *Payments, f func() (T, error)) (result T, err error) {
	err = s.locked(ctx, func() error {
		result, err = f()
		return err
	})
	return result, err
}

// read returns the payment of a record, or store.ErrUnreadable.
func (r *record) read() (payment.Payment, error) {
	if r.spoiled {
		return payment.Payment{}, store.ErrUnreadable
	}
	return r.p, nil
}

// Spoil makes a stored payment unreadable, as a damaged item would be. The payment must be stored.
func (s *Payments) Spoil(id payment.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.payments[id].spoiled = true
}

// SpoilPendingTx makes the pending transaction of a nonce unreadable. It does nothing if the nonce has none.
func (s *Payments) SpoilPendingTx(id wallet.ID, nonce uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i, found := s.find(id, nonce); found {
		s.txs[id][i].spoiled = true
	}
}

// SpoilWallet makes a part of a wallet's record unreadable, until the wallet is reconciled. The record must be stored.
func (s *Payments) SpoilWallet(id wallet.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wallets[id].w.Damaged, s.wallets[id].w.Gas = "gas", token.Amount{}
}

// SpoilRegistration makes a wallet's registration unreadable for good.
func (s *Payments) SpoilRegistration(id wallet.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.registry[id]
	s.registry[id] = wallet.Registration{ID: id, Token: r.Token, State: wallet.Damaged, Key: r.Key, Opened: true, Merchant: r.Merchant}
}

// TearOpen takes the registration's part of Open back, as in a copy that has a part of a transaction.
func (s *Payments) TearOpen(id wallet.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.registry[id]
	r.Opened = false
	s.registry[id] = r
}

// Mend makes every spoiled payment and pending transaction readable again.
func (s *Payments) Mend() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.payments {
		r.spoiled = false
	}
	for _, tx := range slices.Concat(slices.Collect(maps.Values(s.txs))...) {
		tx.spoiled = false
	}
}

// Image returns a copy of the whole store, as a backup would hold it.
func (s *Payments) Image() *Payments {
	s.mu.Lock()
	defer s.mu.Unlock()
	to := NewPayments()
	for id, r := range s.payments {
		to.payments[id] = new(*r)
	}
	for id, p := range s.wallets {
		to.wallets[id] = &purse{w: p.read(), by: p.by}
	}
	for id, txs := range s.txs {
		for _, tx := range txs {
			to.txs[id] = append(to.txs[id], new(*tx))
		}
	}
	to.hashes, to.spent, to.denied = maps.Clone(s.hashes), maps.Clone(s.spent), maps.Clone(s.denied)
	to.registry, to.rails, to.guards = maps.Clone(s.registry), slices.Clone(s.rails), maps.Clone(s.guards)
	return to
}

// Restore replaces the store by another that holds image, as DynamoDB restores a
// backup to another table. image must not be used afterwards.
func (s *Payments) Restore(image *Payments) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tables = image.tables
	for i, r := range s.rails {
		r.versions = slices.Clone(r.versions)
		for v := range r.versions {
			r.versions[v].Confirmed = false
		}
		s.rails[i] = r
	}
}
