package storetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"remit/internal/chain"
	"remit/internal/payment"
	"remit/internal/store"
	"remit/internal/token"
	"remit/internal/wallet"
)

// Protocol are what Run examines: all ports on the same data, and the ways to
// damage it that no port offers.
type Protocol struct {
	store.Store
	Spoil          func(id payment.ID)              // makes a stored payment unreadable
	SpoilPendingTx func(id wallet.ID, nonce uint64) // the same of a pending transaction
}

// A promise is a sentence of the ports' contract and what shows that it holds.
type promise struct {
	sentence string
	keep     func(*check)
}

// Run checks that the stores open returns keep the promises of store.Payments,
// store.History, store.DailyLimits and store.Store. Every call of open may
// return the same stores: each check uses merchants and wallets of its own.
func Payments(t *testing.T, open func(t *testing.T) Protocol) {
	for _, p := range slices.Concat(paymentPromises, commitPromises, pendingTxPromises, noncePromises,
		walletPromises, dailyLimitPromises, listPromises) {
		t.Run(p.sentence, func(t *testing.T) {
			p.keep(&check{T: t, Protocol: open(t), merchant: "mer_" + rand.Text()})
		})
	}
}

// noon is the present of the suite. Payments keep milliseconds; every other
// time is kept to the nanosecond.
var noon = time.Date(2026, time.January, 2, 12, 0, 0, 123_000_000, time.UTC)

// A check is one promise under examination.
type check struct {
	*testing.T
	Protocol
	merchant string // nobody else's
	made     uint64 // payments so far: no two have the same amount, and so the same bytes
}

// coin is the token that is paid.
var coin = token.Token{Symbol: "USDC", Decimals: 6, Contract: token.Address{0xc0, 19: 0x11}}

// walletID returns a wallet nobody has.
func (c *check) walletID() wallet.ID {
	var a token.Address
	if _, err := rand.Read(a[:]); err != nil {
		c.Fatal(err)
	}
	return wallet.ID{ChainID: 84532, Address: a}
}

// draft returns a payment nobody has stored, to be paid by id.
func (c *check) draft(id wallet.ID, at time.Time, amount token.Amount) payment.Payment {
	key := rand.Text()
	r := payment.Request{
		Merchant: c.merchant, Mode: "test", Key: key, To: token.Address{0xaa, 19: 0xbb}, Amount: amount,
		Reference: "inv-2041 «é» 🧾", Metadata: map[string]string{"order": "2041", "empty": ""},
	}
	p := payment.New(payment.KeyID(r.Merchant, r.Mode, key), r, coin, "base-sepolia", at)
	return p.AssignedTo(id.Address, unsigned(id, p, 7))
}

func unsigned(id wallet.ID, p payment.Payment, tip uint64) chain.Tx {
	return chain.Tx{
		ChainID: id.ChainID, To: coin.Contract, Data: chain.TransferData(p.To, p.Amount), Gas: 65_000,
		Fees: chain.Fees{Tip: token.Units(tip), Cap: token.Units(1000 + tip)},
	}
}

// created returns a new payment that is stored.
func (c *check) created(id wallet.ID) payment.Payment { return c.createdAt(id, noon) }

func (c *check) createdAt(id wallet.ID, at time.Time) payment.Payment {
	c.made++
	p := c.draft(id, at, token.Units(c.made))
	c.create(p)
	return p
}

func (c *check) create(p payment.Payment) {
	c.Helper()
	stored, created, err := c.Create(c.Context(), p)
	if err != nil || !created {
		c.Fatalf("creating %s: created %v, error %v", p.ID, created, err)
	}
	c.same("created payment", p, stored)
}

// signed stands for a key: the same transaction at the same nonce is the same
// bytes, and no other is.
func signed(revision string, nonce uint64, tip token.Amount) chain.Signed {
	raw := binary.BigEndian.AppendUint64([]byte("signed "+revision+tip.String()), nonce)
	return chain.Signed{Nonce: nonce, Hash: chain.Hash(sha256.Sum256(raw)), Raw: raw}
}

// committing returns p committed at nonce, not yet stored.
func (c *check) committing(p payment.Payment, nonce uint64) payment.Payment {
	c.Helper()
	p, err := p.Commit(signed(p.Revision, nonce, p.Tx.Fees.Tip), noon.Add(time.Second+789))
	if err != nil {
		c.Fatal(err)
	}
	return p
}

// committed returns p committed at nonce and stored.
func (c *check) committed(p payment.Payment, nonce uint64) payment.Payment {
	c.Helper()
	p = c.committing(p, nonce)
	c.ok("committing", c.Commit(c.Context(), p))
	return p
}

// bumped returns p with one more attempt, not yet stored.
func (c *check) bumped(p payment.Payment, tip uint64) payment.Payment {
	c.Helper()
	fees := chain.Fees{Tip: token.Units(tip), Cap: token.Units(1000 + tip)}
	p, err := p.Bump(signed(p.Revision, p.Nonce, fees.Tip), fees, noon.Add(time.Minute))
	if err != nil {
		c.Fatal(err)
	}
	return p
}

// confirming returns p confirmed, not yet stored.
func (c *check) confirming(p payment.Payment) payment.Payment {
	c.Helper()
	p, err := p.Confirm(chain.Receipt{Tx: p.LastAttempt().Hash, Succeeded: true, Block: 17}, noon.Add(time.Hour))
	if err != nil {
		c.Fatal(err)
	}
	return p
}

// noop returns the pending transaction of a no-op at nonce, not yet stored.
func noop(id wallet.ID, nonce uint64) wallet.PendingTx {
	tx := chain.Noop(id.ChainID, id.Address, chain.Fees{Tip: token.Units(1), Cap: token.Units(50)})
	return wallet.PendingNoop(id, tx, signed("no-op of "+id.Address.String(), nonce, tx.Fees.Tip), noon)
}

// opened returns a new wallet that is stored: nonces 5 to 69, and a million of
// each kind.
func (c *check) opened() wallet.Wallet {
	c.Helper()
	w := wallet.Wallet{
		ID: c.walletID(), NextNonce: 5, Ceiling: 69, Reservations: map[payment.ID]wallet.Reservation{},
		Token: token.Units(1_000_000), Gas: token.Units(1_000_000),
	}
	c.ok("opening", c.Open(c.Context(), w))
	return w
}

// A reservation of 10 and 3.
func (c *check) request(w wallet.Wallet, id payment.ID) wallet.Need {
	return wallet.Need{Wallet: w.ID, Payment: id, Token: token.Units(10), Gas: token.Units(3), At: noon.Add(456)}
}

// reserved returns the wallet after a payment was given a reservation.
func (c *check) reserved(w wallet.Wallet, id payment.ID) wallet.Wallet {
	c.Helper()
	w, err := c.Reserve(c.Context(), c.request(w, id))
	c.ok("reserving", err)
	return w
}

// same compares values. Attempts and hashes of none and of no length are the
// same, and so is metadata.
func (c *check) same(what string, want, got any) {
	c.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.EquateComparable(token.Amount{}), wholeBytes); diff != "" {
		c.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// wholeBytes compares signed bytes at once: a megabyte takes seconds otherwise.
var wholeBytes = cmp.FilterValues(func(a, b []byte) bool { return len(a)+len(b) > 0 }, cmp.Comparer(bytes.Equal))

func (c *check) ok(what string, err error) {
	c.Helper()
	if err != nil {
		c.Fatalf("%s: %v", what, err)
	}
}

func (c *check) refused(what string, err, want error) {
	c.Helper()
	if !errors.Is(err, want) {
		c.Errorf("%s: error = %v, want %v", what, err, want)
	}
}

// samePayment compares a payment as it was written with what was read. The
// bytes of its attempts are in the pending transaction, and its revision has had its day.
func (c *check) samePayment(what string, want, got payment.Payment) {
	c.Helper()
	want.Attempts = bare(want.Attempts)
	if want.State != payment.Prepared {
		want.Revision = got.Revision
	}
	c.same(what, want, got)
}

// holds checks what is stored under p's ID.
func (c *check) holds(p payment.Payment) {
	c.Helper()
	stored, err := c.Payment(c.Context(), p.ID)
	c.ok("reading a payment", err)
	c.samePayment("stored payment", p, stored)
}

// holdsWallet checks what is stored of a wallet.
func (c *check) holdsWallet(w wallet.Wallet) {
	c.Helper()
	stored, err := c.Wallet(c.Context(), w.ID)
	c.ok("reading a wallet", err)
	c.same("stored wallet", w, stored)
}

// holdsPendingTxs checks that the wallet has exactly these pending transactions, one by one too.
func (c *check) holdsPendingTxs(id wallet.ID, want ...wallet.PendingTx) {
	c.Helper()
	pendingTxs, unreadable, err := c.PendingTxs(c.Context(), id)
	c.ok("reading pending transactions", err)
	c.same("stored pending transactions", want, pendingTxs)
	if unreadable != 0 {
		c.Errorf("%d pending transactions are unreadable", unreadable)
	}
	for _, s := range want {
		got, err := c.PendingTx(c.Context(), id, s.Nonce)
		c.ok("reading a pending transaction", err)
		c.same("stored pending transaction", s, got)
	}
}

// leads checks that each hash finds the payment, or nothing when p is zero.
func (c *check) leads(p payment.Payment, hashes ...chain.Hash) {
	c.Helper()
	for _, h := range hashes {
		stored, err := c.PaymentByHash(c.Context(), h)
		if p.ID == "" {
			c.refused("finding a hash", err, store.ErrNotFound)
			continue
		}
		c.ok("finding a hash", err)
		c.samePayment("payment of a hash", p, stored)
	}
}

// race calls f n times at once.
func (c *check) race(n int, f func(ctx context.Context, i int)) {
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-start
			f(c.Context(), i)
		})
	}
	close(start)
	wg.Wait()
}

func isAny(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
}

// bare returns attempts without the bytes, which the pending transaction has.
func bare(attempts []payment.Attempt) []payment.Attempt {
	attempts = slices.Clone(attempts)
	for i := range attempts {
		attempts[i].Raw = nil
	}
	return attempts
}
