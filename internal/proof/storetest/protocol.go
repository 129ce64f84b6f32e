package storetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/proposal"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// A Protocol is a store under examination, with ways to damage it that no port offers.
type Protocol struct {
	store.Store
	Spoil          func(id payment.ID)              // makes a stored payment unreadable
	SpoilPendingTx func(id wallet.ID, nonce uint64) // makes a stored pending transaction unreadable

	SpoilWallet       func(id wallet.ID) // makes the spendable gas of a stored wallet unreadable
	SpoilRegistration func(id wallet.ID) // makes a registration unreadable
}

// Payments checks that the store which open returns keeps the promises of
// store.Store. Every call of open may return the same store.
func Payments(t *testing.T, open func(t *testing.T) Protocol) {
	promises := slices.Concat(moneyPromises, racePromises, damagePromises, boundPromises)
	examine(t, promises, func(c tester) *check {
		return &check{tester: c, Protocol: open(c.T), merchant: "mer_" + rand.Text()}
	})
}

// A check examines one promise of store.Store.
type check struct {
	tester
	Protocol
	merchant string // of this check alone
	made     uint64 // payments so far: no two have the same amount, and so the same bytes
}

// same compares values. A nil slice or map equals an empty one.
func (c *check) same(what string, want, got any) {
	c.Helper()
	c.tester.same(what, want, got, cmpopts.EquateEmpty())
}

var usdc = token.Token{Symbol: "USDC", Decimals: 6, Contract: token.Address{0xc0, 19: 0x11}}

func rail(chainID uint64) token.Coin { return token.Coin{ChainID: chainID, Contract: usdc.Contract} }

func (c *check) walletID() wallet.ID {
	id := wallet.ID{ChainID: 84532}
	must.Get(rand.Read(id.Address[:]))(c)
	return id
}

// draft returns a new payment, to be paid by id. It is not stored.
func (c *check) draft(id wallet.ID, at time.Time, amount token.Amount) payment.Payment {
	return offer(id, at, c.request(amount))
}

func (c *check) request(amount token.Amount) payment.Request {
	return payment.Request{Merchant: c.merchant, Mode: "test", IdempotencyKey: rand.Text(),
		To: token.Address{0xaa, 19: 0xbb}, Amount: amount, Reference: "inv-2041 «é» 🧾",
		Metadata: map[string]string{"order": "2041", "empty": ""}}
}

func offer(id wallet.ID, at time.Time, r payment.Request) payment.Payment {
	p := payment.New(payment.KeyID(r.Merchant, r.Mode, r.IdempotencyKey), r, usdc, "base-sepolia", at)
	if len(r.Entries) > 1 {
		p.BatchContract = token.Address{0xba, 19: 0xba}
	}
	return p.AssignedTo(id.Address, unsigned(id, p, 7))
}

// found returns p as a chain shows it: without the request that asked for it.
func found(p payment.Payment) payment.Payment {
	p.Merchant, p.Mode, p.IdempotencyKey, p.Fingerprint, p.Reference, p.Metadata = "", "", "", "", "", nil
	return p
}

// unstored returns a draft of one unit, paid by a new wallet.
func (c *check) unstored() payment.Payment { return c.draft(c.walletID(), noon, token.Units(1)) }

func unsigned(id wallet.ID, p payment.Payment, tip uint64) chain.Tx {
	units, _ := p.Amount.Uint64()
	return chain.Tx{
		GasUnit: chain.GasUnit(units % 2 * 1000), // of every other payment the token pays gas
		ChainID: id.ChainID, To: p.Call(id.Address, false).To, Data: p.CallData(tip%2 == 1), Gas: 65_000,
		Fees: chain.Fees{Tip: token.Units(tip), Cap: token.Units(1000 + tip)}, L1Fee: token.Units(30 * tip),
	}
}

func (c *check) create(p payment.Payment) payment.Payment {
	c.Helper()
	stored, created, err := c.Create(c.Context(), p)
	if err != nil || !created {
		c.Fatalf("creating %s: created %v, error %v", p.ID, created, err)
	}
	c.same("created payment", p, stored)
	return p
}

// signed replaces a key: a transaction at a nonce always gives the same bytes, and any other transaction gives others.
func signed(revision string, nonce uint64, tip token.Amount) chain.Signed {
	raw := binary.BigEndian.AppendUint64([]byte("signed "+revision+tip.String()), nonce)
	return chain.Signed{Nonce: nonce, Hash: chain.Hash(sha256.Sum256(raw)), Raw: raw}
}

// committing returns p committed at nonce, not yet stored.
func (c *check) committing(p payment.Payment, nonce uint64) payment.Payment {
	c.Helper()
	return must.Get(p.Commit(signed(p.Revision, nonce, p.Tx.Fees.Tip), noon.Add(time.Second+789)))(c)
}

// bumping returns p with one more attempt, not yet stored.
func (c *check) bumping(p payment.Payment, tip uint64) payment.Payment {
	c.Helper()
	fees := chain.Fees{Tip: token.Units(tip), Cap: token.Units(1000 + tip)}
	tx := p.Tx
	tx.Fees, tx.Gas = fees, tx.Gas+tip
	return must.Get(p.Bump(signed(p.Revision, p.Nonce, fees.Tip), tx, noon.Add(time.Minute)))(c)
}

// confirming returns p confirmed, not yet stored.
func (c *check) confirming(p payment.Payment) payment.Payment {
	c.Helper()
	receipt := chain.Receipt{Tx: p.LastAttempt().Hash, Succeeded: true, Block: 17}
	return must.Get(p.Confirm(receipt, noon.Add(time.Hour)))(c)
}

// noop returns the pending transaction of a no-op at nonce, not yet stored.
func noop(id wallet.ID, nonce uint64) wallet.PendingTx {
	tx := chain.Noop(id.ChainID, id.Address, chain.Fees{Tip: token.Units(1), Cap: token.Units(50)})
	tx.GasUnit = chain.GasUnit(nonce % 2 * 1000)
	return wallet.PendingNoop(id, tx, signed("no-op of "+id.Address.String(), nonce, tx.Fees.Tip), noon)
}

func (c *check) open(w wallet.Wallet) wallet.Wallet {
	c.Helper()
	c.ok("opening", c.Open(c.Context(), w, usdc.Contract))
	return w
}

// opened returns a new wallet that is stored: nonces 5 to 68, a million units of the token and a million wei.
func (c *check) opened() wallet.Wallet {
	c.Helper()
	return c.open(wallet.Wallet{ID: c.walletID(), NextNonce: 5, Ceiling: 69,
		Reservations: map[payment.ID]wallet.Reservation{}, Balance: token.Units(1_000_000),
		Gas: token.Units(1_000_000)})
}

// need asks for a reservation that ties up 10 units and 3 wei.
func need(w wallet.Wallet, id payment.ID) wallet.Need {
	return wallet.Need{Wallet: w.ID, Payment: id, For: "revision", Amount: token.Units(10), Gas: token.Units(3), At: noon.Add(456)}
}

// after returns w as a reservation for need leaves it.
func after(w wallet.Wallet, n wallet.Need) wallet.Wallet {
	w.Reservations = maps.Clone(w.Reservations)
	w.Reservations[n.Payment] = wallet.Reservation{Nonce: w.NextNonce, At: n.At, For: n.For}
	w.NextNonce++
	w.Balance, w.Gas = w.Balance.Sub(n.Amount), w.Gas.Sub(n.Gas)
	return w
}

func (c *check) wallet(id wallet.ID) wallet.Wallet {
	c.Helper()
	return must.Get(c.Wallet(c.Context(), id))(c)
}

func idOf(p payment.Payment) wallet.ID { return wallet.ID{ChainID: p.Tx.ChainID, Address: p.Wallet} }

func rebid(n wallet.PendingTx, tip uint64) wallet.PendingTx {
	tx := chain.Noop(n.ChainID, n.Address, chain.Fees{Tip: token.Units(tip), Cap: token.Units(50 + tip)})
	tx.GasUnit = chain.GasUnit(n.Nonce % 2 * 1000)
	return n.Bumped(tx, signed("no-op of "+n.Address.String(), n.Nonce, tx.Fees.Tip), noon.Add(time.Minute))
}

// proposal returns a proposal of r, not yet stored.
func (c *check) proposal(r payment.Request) proposal.Proposal {
	by := proposal.Proposal{By: proposal.Author{Key: "key_1", Root: "key_1"}, Required: true, Life: time.Hour, NotBefore: noon}
	return proposal.New(by, r, usdc, 84532, "base-sepolia", noon)
}

// noon is the present of the suites. Payments keep milliseconds; a store keeps every other time to the nanosecond.
var noon = time.Date(2026, time.January, 2, 12, 0, 0, 123_000_000, time.UTC)

// A promise is a sentence of a port's contract and the check that the store C keeps it.
type promise[C any] struct {
	sentence string
	keep     func(C)
}

// examine checks each promise in a subtest, on the store that open returns.
func examine[C any](t *testing.T, promises []promise[C], open func(tester) C) {
	for _, p := range promises {
		t.Run(p.sentence, func(t *testing.T) { p.keep(open(tester{t})) })
	}
}

// Places checks that a store has room for as many places as the bound says, of the longest names, and for none more.
func Places(t *testing.T, s store.Places) {
	c := tester{t}
	take := func(id string, most int) error {
		return s.Take(t.Context(), store.Place{Merchant: longest, ID: id, Until: noon.Add(time.Minute)}, noon, most)
	}
	for i := range store.MaxPlaces {
		c.ok("up to the bound", take(fmt.Sprintf("%026d", i), store.MaxPlaces))
	}
	c.refused("one more", take("z", store.MaxPlaces), store.ErrFull)
}

// A tester is one subtest with the assertions that all suites share.
type tester struct{ *testing.T }

// ok ends the subtest if the named call returned an error.
func (c tester) ok(what string, err error) {
	c.Helper()
	if err != nil {
		c.Fatalf("%s: %v", what, err)
	}
}

// refused checks that the named call returned the error want.
func (c tester) refused(what string, err, want error) {
	c.Helper()
	if !errors.Is(err, want) {
		c.Errorf("%s: error = %v, want %v", what, err, want)
	}
}

func (c tester) same(what string, want, got any, options ...cmp.Option) {
	c.Helper()
	if diff := cmp.Diff(want, got, append(options, byEquality, wholeBytes, bare)...); diff != "" {
		c.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// byEquality compares types with hidden fields by ==.
var byEquality = cmpopts.EquateComparable(token.Amount{}, webhook.Secret{})

// wholeBytes compares byte slices at once: a diff of a megabyte takes seconds.
var wholeBytes = cmp.FilterValues(func(a, b []byte) bool { return len(a)+len(b) > 0 }, cmp.Comparer(bytes.Equal))

// wins calls f n times at once and returns the indices of the calls without an
// error. It checks that every other call was refused with the error refusal.
func (c tester) wins(n int, refusal error, f func(ctx context.Context, i int) error) (won []int) {
	c.Helper()
	errs, start := make([]error, n), make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-start
			errs[i] = f(c.Context(), i)
		})
	}
	close(start)
	wg.Wait()
	for i, err := range errs {
		if err == nil {
			won = append(won, i)
			continue
		}
		c.refused(fmt.Sprint("racing call ", i), err, refusal)
	}
	return won
}

// A race is n calls of write at once, so many of which succeed. Every other has the refusal.
type race struct {
	what    string
	n, wins int
	refusal error
	write   func(ctx context.Context, i int) error
}

func (c tester) races(all ...race) {
	c.Helper()
	for _, race := range all {
		won := c.wins(race.n, race.refusal, func(ctx context.Context, i int) error {
			return patiently(func() error { return race.write(ctx, i) })
		})
		if len(won) != race.wins {
			c.Errorf("%d of %d racing %s got in, want %d", len(won), race.n, race.what, race.wins)
		}
	}
}

// errOthers is the refusal of a racing call that found another's result.
var errOthers = errors.New("another call's")

// othersUnless returns errOthers for a call that is not the one.
func othersUnless(own bool, err error) error {
	if err == nil && !own {
		return errOthers
	}
	return err
}

// patiently repeats a write whose outcome the store could not tell, as happens when many transactions meet on one item.
func patiently(write func() error) error {
	var err error
	for range 20 {
		err = write()
		if class(err) != unknown || errors.Is(err, errOthers) {
			break
		}
	}
	return err
}

// eventually repeats read, which compares an index with its table, until it
// returns no difference: an index may lag. It gives up after a second or more.
func (c tester) eventually(what string, read func() (diff string)) {
	c.Helper()
	var diff string
	for range 50 {
		if diff = read(); diff == "" {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	c.Errorf("%s (-want +got):\n%s", what, diff)
}
