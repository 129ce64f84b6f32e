// Package oracle checks a simulation against the invariants of payments. It reads only the blocks
// of the chain, the tables, the clients' answers and the published events, never the state of an
// engine. If one of two nodes may decide alone because the other is silent, the invariants hold
// only while neither lies (stack.Config.SilentAfter): no other node contradicts the remaining one.
package oracle

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/simulation/fakechain"
	"github.com/remit-payouts/remit/internal/sandbox/memory"
)

// An Invariant holds in every simulation, with all its faults.
type Invariant string

// The invariants. docs/guarantees.md states them in full.
const (
	PaidOnce         Invariant = "I1 paid once"
	StoredBeforeSent Invariant = "I2 stored before sent"
	NonceOwned       Invariant = "I3 nonce owned"
	FailedIsUnpaid   Invariant = "I4 failed is unpaid"
	SumsAgree        Invariant = "I5 sums agree"
	Settles          Invariant = "I6 settles"
	Announced        Invariant = "I7 announced"
	AnswersHold      Invariant = "I8 answers hold"
	WithinBounds     Invariant = "I9 within bounds"
	ProgressHolds    Invariant = "I10 progress holds"
	Unharmed         Invariant = "I11 unharmed"
	Frugal           Invariant = "I12 frugal"
	ProposalsHold    Invariant = "I14 proposals hold" // I13 is the acceptor's
)

// A Config names the things that an Oracle looks at.
type Config struct {
	Store       *memory.Payments // the tables themselves, without faults
	Chain       *fakechain.Chain
	Depth       uint64                             // in blocks: nothing that deep is re-organised
	Window      uint64                             // payments in flight per wallet
	MerchantCap uint64                             // of those, the most of one merchant; 0: any
	Own         string                             // the merchant whose payments leave its own wallets alone
	Spare       uint64                             // nonces that a recovery uses up beyond a wallet's count
	Limits      []payment.DailyLimit               // of every payment's day
	Refill      [2]token.Amount                    // the most of tokens, and of ether, that refills move in a day; zero: any
	Silent      bool                               // nodes that are silent for long do not count
	Bus         bool                               // the operator has one for events
	Skew        time.Duration                      // by which clocks are wrong, at most
	Trace       func(who, format string, a ...any) // of the simulation
	Goal        Goal
}

// An Oracle records how invariants are violated. Make one with New.
type Oracle struct {
	Config

	mu         sync.Mutex
	violations []string
	orders     map[string]Order
	requests   map[string]int // handlers started, by key
	answers    map[string][]Answer
	events     map[string][]webhook.Event     // by id
	forwarded  map[string]bool                // that reached the bus
	Torn       bool                           // the tables were restored from a torn copy
	noops      map[chain.Hash]bool            // ever stored
	stolen     map[chain.Hash]bool            // transactions signed by a thief of a key
	taken      map[nonce]bool                 // those of which a block took
	refusers   map[chain.Hash]map[string]bool // nodes that said that they will never take these bytes
	past       []*memory.Payments             // tables that were lost, as they were then
	barred     map[token.Address]time.Time    // since when requests that begin then find it on a list; zero: the start, if ever
	ruled      []ruling                       // one after the other
	countings  map[counter]*counting
	shown      map[chain.Hash][]string  // the nodes that have given a receipt
	progressed map[token.Address]uint64 // the most nonces of a wallet that were stored as mined: a run may store them again
	led        map[token.Address]uint64 // the most transactions of a wallet that a node has counted for a recovery
	spendings  map[string]*spending     // by actor
	harmed     bool                     // a wallet was paused
	proposed   map[payment.ID]time.Time // since tables were lost
	cancelled  []Order                  // by an answer since then
	base       uint64                   // the last block that was not rolled back
	rolled     time.Time                // when an operator accepted that; zero: never
}

// A ruling has the settings since a time.
type ruling struct {
	from     time.Time
	maximum  token.Amount // of a payment; zero: none
	unusable bool
}

// Ruled notes that the settings were changed, or cannot be obeyed any more.
func (o *Oracle) Ruled(unusable error) {
	o.ruled = append(o.ruled, ruling{time.Now(), o.rail().Settings.Maximum, unusable != nil})
}

// window is how many payments of a wallet the newest settings let be in flight.
func (o *Oracle) window() uint64 {
	return cmp.Or(o.rail().Settings.NonceWindow, o.Window)
}

// rail is the rail in the tables.
func (o *Oracle) rail() store.Rail {
	rules, _ := o.Store.Rules(context.Background())
	return rules.Rail(o.Chain.Coin())
}

// may reports whether any settings let a payment of an amount be made that were in force
// less than settings.MaxAge before the request began, or since.
func (o *Oracle) may(amount token.Amount, began time.Time) bool {
	for i, r := range o.ruled {
		over := i+1 < len(o.ruled) && o.ruled[i+1].from.Before(began.Add(-settings.MaxAge))
		if !over && !r.unusable && (r.maximum.IsZero() || !r.maximum.Less(amount)) {
			return true
		}
	}
	return false
}

type nonce struct {
	wallet token.Address
	n      uint64
}

// New returns an Oracle that sees every transaction that the chain mines.
func New(c Config) *Oracle {
	o := &Oracle{Config: c, orders: map[string]Order{}, requests: map[string]int{}, answers: map[string][]Answer{},
		events: map[string][]webhook.Event{}, noops: map[chain.Hash]bool{}, stolen: map[chain.Hash]bool{},
		taken: map[nonce]bool{}, refusers: map[chain.Hash]map[string]bool{}, barred: map[token.Address]time.Time{},
		proposed: map[payment.ID]time.Time{}, countings: map[counter]*counting{}, led: map[token.Address]uint64{},
		forwarded: map[string]bool{}, progressed: map[token.Address]uint64{}, shown: map[chain.Hash][]string{},
		spendings: map[string]*spending{}}
	c.Chain.Mined = o.mined
	return o
}

// Violate records that an invariant does not hold.
func (o *Oracle) Violate(i Invariant, format string, args ...any) {
	line := string(i) + ": " + fmt.Sprintf(format, args...)
	o.Trace("ORACLE", "%s", line)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.violations = append(o.violations, line)
}

// Requested counts a request in, and reports whether its payment is committed already.
func (o *Oracle) Requested(r Order) (committed bool) {
	p, err := o.Store.Payment(context.Background(), r.ID())
	o.Order(r)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.requests[r.Key]++
	return err == nil && p.State.Signed() && o.here(p)
}

// here reports whether a payment is of the oracle's rail.
func (o *Oracle) here(p payment.Payment) bool { return p.Tx.ChainID == o.Chain.ID }

// Answered records an answer. A request whose payment was committed before must not hear that nothing was started.
func (o *Oracle) Answered(a Answer, committed bool) {
	if committed && a.Refused() {
		o.Violate(AnswersHold, "%s was committed, and a retry was told nothing was started: %v", a.Order.Key, a.Err)
	}
	o.checkSimilar(a)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.answers[a.Order.Key] = append(o.answers[a.Order.Key], a)
}

// Published records an event that arrived, at its merchant or at the operator's bus.
func (o *Oracle) Published(e webhook.Event, bus bool) {
	o.mu.Lock()
	before := o.events[e.ID]
	if o.forwarded[e.ID] = o.forwarded[e.ID] || bus; !bus {
		o.events[e.ID] = append(before, e)
	}
	o.mu.Unlock()
	if e.Merchant == payment.Operator {
		o.Violate(Announced, "the end of an operator's transfer was published: %s", e.ID)
	}
	switch old := bus && len(o.past) > 0; { // its job may be of tables that were lost
	case bus && len(before) == 0 && !old:
		o.Violate(Announced, "event %s reached the bus before its merchant", e.ID)
	case len(before) > 0 && !old && !reflect.DeepEqual(before[0], e):
		o.Violate(Announced, "event %s was published in two forms", e.ID)
	}
	var body struct {
		Data struct {
			Hash chain.Hash `json:"tx_hash"`
		} `json:"data"`
	}
	if _ = json.Unmarshal(e.Body, &body); !bus { // without a hash, no payment is found
		o.checkOrder(e.Type, body.Data.Hash)
	}
}

// Steal lets a thief of a wallet's key use a nonce. Payments may lack the coins that the thief takes.
func (o *Oracle) Steal(from token.Address, nonce uint64, amount token.Amount) {
	o.stolen[o.Chain.Steal(from, nonce, amount)] = true
}

// Bar notes that a list has a recipient, which requests find that begin from then on.
func (o *Oracle) Bar(to token.Address, from time.Time) { o.barred[to] = from }

// Reserving applies a reservation that a request asks for, and checks that it gives no nonce to a payment that the
// request could not have begun: then, with such a maximum. late reports that its time had passed when it asked.
func (o *Oracle) Reserving(id payment.ID, began time.Time, maximum token.Amount, late bool, apply func()) {
	p, err := o.Store.Payment(context.Background(), id)
	held := func() bool {
		w, err := o.Store.Wallet(context.Background(), wallet.ID{ChainID: o.Chain.ID, Address: p.Wallet})
		_, held := w.Reservations[id]
		return held && err == nil
	}
	before := held()
	if apply(); err != nil || p.State != payment.Prepared || before || !held() { // committed: paid at its nonce only
		return
	}
	if late {
		o.Violate(WithinBounds, "%s got a nonce by a request whose time had passed", id)
	}
	for _, e := range p.Outputs() {
		if from := o.barred[e.To]; !from.IsZero() && !began.Before(from) && (o.Chain.Listed[e.To] || o.denied(e.To)) {
			o.Violate(WithinBounds, "%s got a nonce by a request that began when a list had %s", id, short(e.To))
		}
		limited := e.Amount
		if p.Merchant == payment.Operator { // no amount is too large for it, but it needs settings
			limited = token.Amount{}
		}
		if !o.may(limited, began) {
			o.Violate(WithinBounds, "%s got a nonce by a request that began when the settings allowed no payment of %s", id, e.Amount)
		}
		if !maximum.IsZero() && maximum.Less(e.Amount) {
			o.Violate(WithinBounds, "%s got a nonce by a key that pays %s at most, and pays %s", id, maximum, e.Amount)
		}
	}
}

// Stolen reports whether a thief has ever used a key.
func (o *Oracle) Stolen() bool { return len(o.stolen) > 0 }

// Lost accepts that the tables have changed. Once a recovery completes them, no payment is made twice, or unknown.
func (o *Oracle) Lost(before *memory.Payments) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.past = append(o.past, before)
	clear(o.requests)
	clear(o.answers)
	clear(o.events)
	clear(o.proposed)
	o.cancelled = nil
}

// Recovers accepts that a recovery uses up nonces, and changes what the tables show.
func (o *Oracle) Recovers() { o.past = append(o.past, o.Store.Image()) }

// RolledBack accepts that the chain went back below finality, to a block: what the tables show
// as final behind it is so no more, and nobody can know.
func (o *Oracle) RolledBack(base uint64) { o.base, o.rolled = base, time.Now() }

// Gone reports whether p ended on blocks that were rolled back.
func (o *Oracle) Gone(p payment.Payment) bool {
	return p.State.Final() && !p.UpdatedAt.After(o.rolled) && (p.Block == 0 || p.Block > o.base)
}

// Order returns the order that was asked for first under o's key: r, if none was.
func (o *Oracle) Order(r Order) Order {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, ok := o.orders[r.Key]; !ok {
		o.orders[r.Key] = r
	}
	return o.orders[r.Key]
}

// Orders returns every order that was ever asked for, in the order of keys.
func (o *Oracle) Orders() (all []Order) {
	for _, key := range slices.Sorted(maps.Keys(o.orders)) {
		all = append(all, o.orders[key])
	}
	return all
}

// ours reports whether the tables know a transaction, or knew it for a no-op.
func (o *Oracle) ours(h chain.Hash) bool {
	return o.noops[h] || slices.ContainsFunc(append([]*memory.Payments{o.Store}, o.past...), func(tables *memory.Payments) bool {
		p, err := tables.PaymentByHash(context.Background(), h)
		return errors.Is(err, store.ErrUnreadable) || err == nil && slices.Contains(p.Hashes(), h) // or damaged
	})
}

// known returns the payment of a transaction, from the tables or from the lost tables.
func (o *Oracle) known(h chain.Hash) (p payment.Payment, err error) {
	for _, tables := range append([]*memory.Payments{o.Store}, o.past...) {
		if p, err = tables.PaymentByHash(context.Background(), h); !errors.Is(err, store.ErrNotFound) {
			break
		}
	}
	return p, err
}

// Sending checks bytes on their way to a node.
func (o *Oracle) Sending(h chain.Hash) {
	if !o.ours(h) {
		o.Violate(StoredBeforeSent, "bytes were sent that are not stored: %s", h)
	}
}

// Replied records a node's reply to bytes.
func (o *Oracle) Replied(node string, h chain.Hash, reply chain.Reply) {
	if reply.Class != chain.Wrong && reply.Class != chain.GasTooLow {
		return
	}
	if o.refusers[h] == nil {
		o.refusers[h] = map[string]bool{}
	}
	o.refusers[h][node] = true
}

// hopeless reports whether every node refused an attempt that pays for good.
func (o *Oracle) hopeless(p payment.Payment) bool {
	return slices.ContainsFunc(p.Attempts, func(a payment.Attempt) bool {
		return !a.Noop && len(o.refusers[a.Hash]) == len(o.Chain.Nodes)
	})
}

// mined checks a transaction as a block takes it.
func (o *Oracle) mined(tx fakechain.Tx) {
	if o.Goal.Unharmed {
		o.checkPrice(tx)
	}
	h := tx.Sign().Hash
	if o.stolen[h] {
		o.taken[nonce{tx.From, tx.Nonce}] = true
	} else if !o.ours(h) {
		o.Violate(StoredBeforeSent, "nonce %d of %s was mined and its hash is not stored", tx.Nonce, short(tx.From))
	}
}

// moving are the writes that give a nonce an owner, or take one away.
var moving = []string{"Reserve", "Return", "Release", "RaiseCeiling", "LowerCeiling", "Commit", "PutNoop", "BumpNoop",
	"DeletePendingTx", "Assign"}

// Stored is to be called after every call of the tables, with its operation. After
// a write that moves a nonce, the Oracle checks that each nonce has an owner.
func (o *Oracle) Stored(op string) {
	if o.Goal.Unharmed && (op == "Pause" || op == "Repause") {
		o.checkPauses()
	}
	if slices.Contains(moving, op) {
		for _, id := range o.wallets() {
			o.owners(id)
		}
	}
}

// wallets are the wallets that pay, in the order of their addresses.
func (o *Oracle) wallets() (ids []wallet.ID) {
	for _, a := range slices.SortedFunc(maps.Keys(o.Chain.Funded()), func(a, b token.Address) int { return bytes.Compare(a[:], b[:]) }) {
		ids = append(ids, wallet.ID{ChainID: o.Chain.ID, Address: a})
	}
	return ids
}

// checkOwner checks that a nonce of w is its merchant's, or an operator's, and that the merchant with own wallets has no
// other, unless restored tables do not know of an assignment.
func (o *Oracle) checkOwner(w wallet.Wallet, of payment.ID) {
	p, err := o.Store.Payment(context.Background(), of)
	if err != nil || p.Wallet != w.Address || p.Merchant == payment.Operator || p.Merchant == "" {
		return
	}
	if w.Merchant != "" && p.Merchant != w.Merchant || w.Merchant == "" && p.Merchant == o.Own && len(o.past) == 0 {
		o.Violate(WithinBounds, "%s of %s has a nonce of %s, of %q", of, p.Merchant, short(w.Address), w.Merchant)
	}
}

// owners checks that every nonce from the chain's final count to next_nonce has one reservation or pending transaction.
func (o *Oracle) owners(id wallet.ID) {
	ctx := context.Background()
	w, err := o.Store.Wallet(ctx, id)
	if err != nil {
		return
	}
	txs, _, err := o.Store.PendingTxs(ctx, id, 0)
	if err != nil {
		return
	}
	for _, tx := range txs {
		o.noops[tx.Hash()] = o.noops[tx.Hash()] || tx.Noop() || tx.HasNoop // the payment may get it in the next write
	}
	most := o.Chain.MostMined(id.Address) + o.Window
	if len(o.past) > 0 { // a recovery goes by the node that counts most
		o.mu.Lock()
		most = max(most, o.led[id.Address]) + o.Spare
		o.mu.Unlock()
	}
	if w.NextNonce > most {
		o.Violate(WithinBounds, "next nonce of %s is %d: more than %d are in flight", short(id.Address), w.NextNonce, o.Window)
	}
	// A re-organisation gives back nonces that were counted as mined.
	flying := func(nonce uint64) bool { return nonce >= o.Chain.MostMined(id.Address) }
	busy := map[string]uint64{} // by merchant
	count := func(id payment.ID) {
		p, _ := o.Store.Payment(ctx, id)
		busy[p.Merchant]++
	}
	for _, tx := range txs {
		o.checkOwner(w, tx.Payment)
		if _, held := w.Reservations[tx.Payment]; !tx.Noop() && !held && flying(tx.Nonce) {
			count(tx.Payment)
		}
	}
	for holder, r := range w.Reservations {
		o.checkOwner(w, holder)
		// An orphan whose release got lost has no nonce any more: a no-op has it.
		orphan := r.At.IsZero() && slices.ContainsFunc(txs, func(tx wallet.PendingTx) bool { return tx.Nonce == r.Nonce && tx.Noop() })
		if flying(r.Nonce) && !orphan {
			count(holder)
		}
	}
	delete(busy, payment.Operator) // its transfers have no share
	delete(busy, "")               // those of payments that were discarded
	for _, merchant := range slices.Sorted(maps.Keys(busy)) {
		if o.MerchantCap > 0 && len(o.past) == 0 && w.Merchant == "" && busy[merchant] > o.MerchantCap {
			o.Violate(WithinBounds, "%d nonces of %s are in flight for %s, whose cap is %d", busy[merchant], short(id.Address), merchant,
				o.MerchantCap)
		}
	}
	if len(w.Reservations) > 0 && len(o.past) == 0 && o.rail().Token.Contract != o.Chain.Token {
		o.Violate(WithinBounds, "a nonce of %s is reserved before the tables have its rail", short(id.Address))
	}
	o.checkNonces(w, txs)
}

// checkNonces checks that every nonce of a wallet has one owner, by its reservations and its pending transactions.
func (o *Oracle) checkNonces(w wallet.Wallet, txs []wallet.PendingTx) {
	owner := map[uint64]payment.ID{} // "": a no-op
	for p, r := range w.Reservations {
		if r.Nonce >= w.Ceiling {
			o.Violate(WithinBounds, "nonce %s is reserved at or above the ceiling %d", at(w.ID, r.Nonce), w.Ceiling)
		}
		if other, twice := owner[r.Nonce]; twice {
			o.Violate(NonceOwned, "nonce %s is reserved to %s and %s", at(w.ID, r.Nonce), other, p)
		}
		owner[r.Nonce] = p
	}
	for _, tx := range txs {
		if p, reserved := owner[tx.Nonce]; reserved && !tx.Noop() && p != tx.Payment {
			o.Violate(NonceOwned, "nonce %s is reserved to %s and has the pending transaction of %s", at(w.ID, tx.Nonce), p, tx.Payment)
		}
		if tx.Nonce >= w.NextNonce && w.Paused == "" {
			o.Violate(NonceOwned, "nonce %s has a pending transaction, next is %d", at(w.ID, tx.Nonce), w.NextNonce)
		}
		owner[tx.Nonce] = tx.Payment
	}
	if (o.Torn || !o.rolled.IsZero()) && w.Paused != "" {
		return // nonces that the chain has given back, or that a torn copy has half, have no owner until a recovery
	}
	for n := o.Chain.Account(w.ID.Address, o.Depth).Nonce; n < w.NextNonce; n++ {
		if _, ok := owner[n]; !ok {
			o.Violate(NonceOwned, "nonce %s has no owner, next is %d", at(w.ID, n), w.NextNonce)
		}
	}
}

func at(id wallet.ID, nonce uint64) string { return fmt.Sprintf("%s#%d", short(id.Address), nonce) }

// short names an address in traces by its last bytes, in which fake ones differ.
func short(a token.Address) string { return fmt.Sprintf("%x", a[18:]) }
