// Package wallet holds the values of wallets: which payment holds which nonce, which bytes belong to each, and how
// many a wallet may have in flight. It owns the rule that exactly one reservation or one pending transaction holds
// each nonce from the chain's count up to next_nonce. It knows no node, no key material and no database.
package wallet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
)

// An ID names one wallet: an account on one chain.
type ID struct {
	ChainID uint64
	Address token.Address
}

// A Wallet is the record of an account that pays.
type Wallet struct {
	ID
	NextNonce    uint64 // the nonce that the next reservation gets
	Returned     uint64 // undone reservations; each lowered next_nonce by one
	NoopsBelow   uint64 // a recovery may have signed no-ops below it; zero: there was no recovery
	Ceiling      uint64 // no reservation at or above it: the chain's count plus the window
	Reservations map[payment.ID]Reservation
	Balance      token.Amount // spendable now: the balance less what reservations and pending transactions tie up
	Gas          token.Amount // the same of ether, in wei; zero where gas is paid in the token
	Paused       string       // why no reservation is given; empty when reservations are
	ClaimedUntil time.Time    // until when a check-receipts run claims it
	Merchant     string       // whose payments alone get reservations; empty: those of all without wallets of their own
	Progress     Progress     // as the last run to claim it stored it; zero: unknown
	// The stored record's unreadable part, zero here; then no reservation is given. NextNonce and Reservations are
	// right.
	Damaged string

	// PerMerchant counts the nonces of each merchant's payments that are not known to be mined, of at most MaxInFlight
	// merchants. A reservation with a MerchantCap adds to it; a run replaces it by the nonces in flight.
	PerMerchant map[string]uint64
}

// MaxInFlight is the most reservations, and merchants in PerMerchant, of a wallet. No window is
// larger: settings allow 64, and remit local has 1,024. They take 230 KB of the 400 KB of an item
// (Amazon DynamoDB Developer Guide, "Constraints in Amazon DynamoDB").
const MaxInFlight = 1024

// A Reservation is a nonce held for a payment whose bytes are not stored yet.
type Reservation struct {
	Nonce uint64
	At    time.Time // when it was taken, by the taker's clock; zero for an orphan, which no payment will use
	For   string    // the revision of the payment that it was taken for
}

// Holds returns the nonce that w holds for a revision of a payment, or false. A reservation for
// another revision is an orphan: it may tie up less than this one needs.
func (w Wallet) Holds(id payment.ID, revision string) (nonce uint64, held bool) {
	r, held := w.Reservations[id]
	return r.Nonce, held && r.For == revision
}

// A PendingTx is the stored transaction of a nonce: the bytes to send until they, or an earlier attempt at the nonce,
// are mined and final. It is also the outbox of the payment's event, and is deleted only once that is published.
type PendingTx struct {
	ID
	Nonce   uint64
	Payment payment.ID   // empty for a no-op
	Hashes  []chain.Hash // every attempt at this nonce, oldest first
	Raw     []byte       // the newest attempt: the only bytes ever sent; empty if it was found mined
	Fees    chain.Fees   // of Raw
	At      time.Time    // when Raw was signed
	Since   time.Time    // when the first attempt was signed
	Amount  token.Amount // tied up until it is mined; with the gas, at the newest attempt's cap, if paid in it
	Gas     token.Amount // the same of ether, at the newest attempt's cap

	Merchant string // the payment's; empty for a no-op, or if unknown
	HasNoop  bool   // the payment has a no-op among its attempts
}

// Noop reports whether the pending transaction only uses up a nonce.
func (s PendingTx) Noop() bool { return s.Payment == "" }

// Hash returns the hash of Raw.
func (s PendingTx) Hash() chain.Hash { return s.Hashes[len(s.Hashes)-1] }

// PendingNoop returns the pending transaction of a signed no-op.
func PendingNoop(id ID, tx chain.Tx, signed chain.Signed, now time.Time) PendingTx {
	coin, gas := tx.Takes(token.Amount{})
	return PendingTx{
		ID: id, Nonce: signed.Nonce, Hashes: []chain.Hash{signed.Hash}, Raw: signed.Raw,
		Fees: tx.Fees, At: now.UTC(), Since: now.UTC(), Amount: coin, Gas: gas,
	}
}

// Bumped returns the no-op s with a newer attempt.
func (s PendingTx) Bumped(tx chain.Tx, signed chain.Signed, now time.Time) PendingTx {
	s.Hashes = append(append([]chain.Hash(nil), s.Hashes...), signed.Hash)
	s.Raw, s.Fees, s.At = signed.Raw, tx.Fees, now.UTC()
	s.Amount, s.Gas = tx.Takes(token.Amount{})
	return s
}

// ErrNoKey reports a wallet whose key the service does not hold.
var ErrNoKey = errors.New("no key for wallet")

// A Signer is one wallet's key.
type Signer interface {
	// Sign returns a signed form of tx at nonce. A key in memory always returns the same bytes; one in another service
	// different ones, or an error. Signing has no effect and may be repeated: only the stored bytes count.
	Sign(ctx context.Context, tx chain.Tx, nonce uint64) (chain.Signed, error)

	// Ready returns an error if Sign would fail now, or did recently.
	Ready(ctx context.Context) error
}

// Keys are the keys of registered wallets.
type Keys interface {
	// Signer returns a wallet's key, or ErrNoKey.
	Signer(ctx context.Context, r Registration) (Signer, error)
}

var (
	// ErrForeign reports a key that another program uses: a node holds the wallet's transactions, not ours, not final.
	ErrForeign = errors.New("another program uses the wallet's key")
	// ErrBehind reports a next nonce below the chain's count: a foreign transaction, or tables from the past.
	ErrBehind = errors.New("the chain is ahead of the wallet's record")
)

// Suspicion begins the reason of every pause for an ErrBehind. While one wallet is paused for it,
// new wallets are paused too: they would repeat payments that the tables have lost.
const Suspicion = "chain ahead"

// Suspect reports whether the wallet is paused for Suspicion. Meanwhile none of its reservations is
// committed: the payment may have been made before the tables were restored.
func (w Wallet) Suspect() bool { return strings.HasPrefix(w.Paused, Suspicion) }

// besides separates a suspicion from another reason of the same pause.
const besides = "; paused before: "

// Reasons returns the suspicion for which w is paused, and the other reason, which outlasts it. Empty means none.
func (w Wallet) Reasons() (suspicion, other string) {
	if !w.Suspect() {
		return "", w.Paused
	}
	suspicion, other, _ = strings.Cut(w.Paused, besides)
	return suspicion, other
}

// PausedFor returns the reason of a pause with one more reason. A suspicion and another reason are both kept. Of two
// suspicions, or two others, the newer replaces the older. A retired wallet has no other reason.
func (w Wallet) PausedFor(reason string) string {
	suspicion, other := w.Reasons()
	switch {
	case w.Paused == RetiredReason:
		return RetiredReason
	case strings.HasPrefix(reason, Suspicion):
		suspicion = reason
	default:
		other = reason
	}
	if suspicion == "" || other == "" {
		return suspicion + other
	}
	return suspicion + besides + other
}

// OutOfGas is the reason of a pause that ends when the wallet is topped up: nodes then accept the same bytes.
const OutOfGas = "out of gas funds"

// RolledBack begins the reason of every pause for a chain that is behind the tables: the nodes lack a block that was
// final. It ends when they have the block again and every nonce that is not final has an owner.
const RolledBack = "chain behind"

// RolledBack reports whether the wallet is paused for RolledBack.
func (w Wallet) RolledBack() bool { return strings.HasPrefix(w.Paused, RolledBack) }

// Passing reports whether the wallet is not paused, or only until its pause ends by itself.
func (w Wallet) Passing() bool { return w.Paused == "" || w.Paused == OutOfGas || w.RolledBack() }

// RetiredReason is the only reason for which a retired wallet is paused.
const RetiredReason = "retired"

// Retiring is why a wallet is paused that had no record when it was retired, until the command is repeated.
const Retiring = "to be retired"

// Unexplained replaces an empty reason, which would mean not paused.
const Unexplained = "unexplained"

// FirstUse returns the record of a new wallet: it starts at the chain's count, with its spendable balances by unit.
// If pools hold more than is mined, or more is mined than settled, the final count, another program uses its key:
// ErrForeign. A nonce that a re-organisation gave back would have no owner.
func FirstUse(id ID, on chain.Account, settled, window uint64, unit chain.GasUnit) (Wallet, error) {
	if on.Mined > settled {
		return Wallet{}, fmt.Errorf("%w: %d transactions of %s are mined, of which %d are final", ErrForeign, on.Mined, id.Address, settled)
	}
	if on.Pending > on.Mined {
		return Wallet{}, fmt.Errorf("%w: pools hold %d of %s, %d are mined", ErrForeign, on.Pending, id.Address, on.Mined)
	}
	coin, gas := unit.Holds(on)
	return Wallet{
		ID: id, NextNonce: on.Mined, Ceiling: on.Mined + window,
		Reservations: map[payment.ID]Reservation{}, Balance: coin, Gas: gas,
	}, nil
}

// Refusals of a reservation. Each means that nothing was reserved.
var (
	ErrUnknown     = errors.New("wallet has no record yet")
	ErrOwner       = errors.New("wallet is another merchant's, or the merchant has its own")
	ErrPaused      = errors.New("wallet is paused")
	ErrHeld        = errors.New("wallet holds a nonce for another form of the payment until check-receipts uses it up")
	ErrMerchantCap = errors.New("wallet has no nonce left for this merchant")
	ErrCeiling     = errors.New("wallet has no nonce left")
	ErrToken       = errors.New("wallet has too little of the token")
	ErrGas         = errors.New("wallet has too little ether for gas")
)

// A Need is a payment's need of a wallet: its next nonce, and an amount and gas, tied up until it is mined.
type Need struct {
	Wallet  ID
	Payment payment.ID
	For     string       // the payment's revision
	Amount  token.Amount // in the token's smallest unit, with the gas where the token pays it
	Gas     token.Amount // wei of ether
	At      time.Time    // when the reservation is requested

	Owner       string // the wallet's Merchant must be this one: empty, a merchant, or Anyone
	Merchant    string
	MerchantCap uint64 // the merchant's maximum in PerMerchant; 0: none, and not counted
}

// Anyone is the Owner of an operator's transfer, which may leave any wallet.
const Anyone = "*"

// Spendable returns a, at most 10^38-1, the largest integer that a DynamoDB number holds exactly (Amazon DynamoDB
// Developer Guide, "Numbers can have up to 38 digits of precision"): a store keeps no more as spendable, so that it
// can subtract in one conditional write. A wallet with more pays from the kept amount until it is reconciled.
func Spendable(a token.Amount) token.Amount {
	most, err := token.Units(1e19).Times(1e19)
	if err != nil {
		panic(err) // 10^38 is less than 2^127
	}
	if most = most.Sub(token.Units(1)); most.Less(a) {
		return most
	}
	return a
}

// Refusal returns why w gives no new reservation for n, or nil. Every store checks in this order.
// It ignores a reservation that n.Payment already holds for n.For.
func (w Wallet) Refusal(n Need) error {
	_, reserved := w.Reservations[n.Payment]
	_, held := w.Holds(n.Payment, n.For)
	taken, counted := w.PerMerchant[n.Merchant]
	switch {
	case n.Owner != w.Merchant && n.Owner != Anyone:
		return ErrOwner
	case w.Paused != "" || w.Damaged != "":
		return ErrPaused
	case reserved && !held:
		return ErrHeld
	case n.MerchantCap > 0 && (taken >= n.MerchantCap || !counted && len(w.PerMerchant) >= MaxInFlight):
		return ErrMerchantCap
	case w.NextNonce >= w.Ceiling || len(w.Reservations) >= MaxInFlight:
		return ErrCeiling
	case w.Balance.Less(n.Amount):
		return ErrToken
	case w.Gas.Less(n.Gas):
		return ErrGas
	default:
		return nil
	}
}
