// Package store is the port of the payment protocol: the reads and writes of dispatch and settlement, and the
// contract that every adapter keeps. It knows no database. Package dynamo and package memory implement it; package
// storetest compares the two, and checks on both what the methods that move money promise here.
//
// Every read but List is strongly consistent. An error that is neither one of the errors below nor a refusal of
// package wallet leaves the outcome unknown: the write may have been applied, or may be applied later. Every write
// but Refund may be repeated. A write beyond the bounds of sizelimits.go is ErrTooLarge and changes nothing; other
// arguments and results have one size, and returned lists are read in pages.
package store

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

var (
	// ErrNotFound reports that no payment is stored under an ID or a hash.
	ErrNotFound = errors.New("payment not found")
	// ErrChanged reports a payment, a wallet or a pending transaction that is not as the caller read it: another
	// process has changed or removed it since. Read it again.
	ErrChanged = errors.New("changed since it was read")
	// ErrUnreadable reports a stored item that does not decode. It concerns that one item only.
	ErrUnreadable = errors.New("stored item cannot be read")
	// ErrOtherRail reports a wallet of another rail: an account pays one token of a chain.
	ErrOtherRail = errors.New("the wallet is another rail's; use another key")
	// ErrNonceTaken reports a nonce that has a pending transaction already, with other bytes.
	ErrNonceTaken = errors.New("nonce has a pending transaction already")
	// ErrDailyLimit reports that a payment would exceed the limit of its merchant, or of its key, for the day.
	ErrDailyLimit = errors.New("daily limit exceeded")
)

// A Store is the whole port. Engines declare the part that they use.
type Store interface {
	Payments
	Proposals
	Nonces
	PendingTxs
	Wallets
	DailyLimits
	Settings
	History
}

// Payments keeps payments.
type Payments interface {
	// Create stores p if no payment is stored under its ID. Otherwise it returns the stored one, with created false.
	Create(ctx context.Context, p payment.Payment) (stored payment.Payment, created bool, err error)

	// Guard returns the guard of that ID, with no payments if none is stored.
	Guard(ctx context.Context, id string) (Guard, error)

	// CreateGuarded is Create, and stores in the same write g with p as the newest of its payments. If another guard
	// than that of g's Version is stored and p is not, it changes nothing and returns ErrChanged.
	CreateGuarded(ctx context.Context, p payment.Payment, g Guard) (stored payment.Payment, created bool, err error)

	// Payment returns the payment stored under id, or ErrNotFound.
	Payment(ctx context.Context, id payment.ID) (payment.Payment, error)

	// PaymentByHash returns the payment that has an attempt of that hash, or ErrNotFound (so too for a no-op's hash).
	PaymentByHash(ctx context.Context, hash chain.Hash) (payment.Payment, error)

	// Reassign stores p's assignment (Wallet, Tx and Revision) if the stored payment is Prepared with the revision
	// old, or has p's already. Otherwise ErrChanged.
	Reassign(ctx context.Context, p payment.Payment, old string) error

	// Discard removes a payment that was refused, if it is still Prepared with p's revision, so that the merchant can
	// use its key again. Otherwise, if the payment is gone already, and if a proposal holds it, ErrChanged.
	Discard(ctx context.Context, p payment.Payment) error

	// Adopt stores the Merchant, Mode, IdempotencyKey, Fingerprint, Reference,
	// Metadata, Version and the entries' references of p, and its place in the merchant's list, if the
	// stored payment has no merchant, the Version before, and is not Prepared. Otherwise ErrChanged.
	Adopt(ctx context.Context, p payment.Payment) error

	// Redact removes the references and the metadata of a final p, and replaces its Event by an
	// Event without them. ErrChanged if the stored payment is not final.
	Redact(ctx context.Context, p payment.Payment) error

	// SetMined stores at, in milliseconds, as the MinedAt of a Committed payment that has none, and
	// returns the stored payment. Otherwise ErrChanged.
	SetMined(ctx context.Context, id payment.ID, at time.Time) (payment.Payment, error)

	// Finish stores a final p with its event if the stored payment is
	// Committed with the Version before. Otherwise ErrChanged: a request has adopted
	// it, another run has made it final, or this call has, and its first answer was lost.
	Finish(ctx context.Context, p payment.Payment) error
}

// Nonces hands out the nonces of wallets.
type Nonces interface {
	// Reserve gives n.Payment the next nonce of n.Wallet, and ties up n.Amount and n.Gas, in one conditional write of
	// one item. If the payment holds a reservation for n.For there already it changes nothing: the payment keeps that
	// nonce, whether the wallet is paused or not. It returns the wallet after the write, with the reservation in
	// w.Reservations[n.Payment]. A refusal (wallet.ErrUnknown, ErrOwner, ErrPaused, ErrHeld, ErrMerchantCap,
	// ErrCeiling, ErrToken, ErrGas, the first in this order) comes with the unchanged wallet. With n.MerchantCap the
	// same write counts the nonce in w.PerMerchant.
	Reserve(ctx context.Context, n wallet.Need) (w wallet.Wallet, err error)

	// Release ends the payment's reservation of tx.Nonce on tx's wallet. The argument proves that
	// the caller has seen tx stored; tx may be another payment's, or a no-op's. A reservation of
	// another nonce stays, and releasing a nonce that the payment does not hold is no error.
	Release(ctx context.Context, id payment.ID, tx wallet.PendingTx) error

	// Return undoes the reservation of nonce for n in one conditional write: the wallet is as
	// before n's request, except for Returned. It requires that the reservation has n's At, that
	// the nonce is the wallet's last, and that the wallet is not paused; otherwise ErrChanged.
	// n.Payment must be committed at another nonce: no process can commit it at this one any more.
	Return(ctx context.Context, n wallet.Need, nonce uint64) error

	// Orphan sets At of the payment's reservation of nonce to zero: then no process returns it, and
	// a run finishes it at once. If the payment does not hold that nonce, it returns ErrChanged.
	Orphan(ctx context.Context, id wallet.ID, holder payment.ID, nonce uint64) error

	// RaiseCeiling sets the ceiling if that raises it. It returns wallet.ErrUnknown if the wallet is not stored.
	RaiseCeiling(ctx context.Context, id wallet.ID, ceiling uint64) error

	// LowerCeiling sets the ceiling to the higher of ceiling and next_nonce if that lowers
	// it. It returns wallet.ErrUnknown if the wallet is not stored.
	LowerCeiling(ctx context.Context, id wallet.ID, ceiling uint64) error
}

// PendingTxs keeps the signed transactions.
type PendingTxs interface {
	// Commit stores, all or nothing: p (just committed) over the stored payment, if that is Prepared with the same
	// Revision, else ErrChanged; its pending transaction, if the nonce has none, else ErrNonceTaken; and its hash.
	// When both conditions fail, it returns ErrChanged.
	Commit(ctx context.Context, p payment.Payment) error

	// AddAttempt stores, all or nothing: the newest attempt of p in payment and pending transaction, and its hash, if
	// both hold exactly the attempts before it and p is Committed. Otherwise ErrChanged. The pending transaction may
	// hold the newest too, in a torn copy.
	AddAttempt(ctx context.Context, p payment.Payment) error

	// PutNoop stores a no-op's pending transaction and hash if the nonce has none, else ErrNonceTaken. In a recovery it
	// and BumpNoop also mend the pending transaction of a payment.
	PutNoop(ctx context.Context, tx wallet.PendingTx) error

	// BumpNoop stores the newest attempt of a no-op and its hash if the pending transaction holds exactly the
	// attempts before it, or it too, else ErrChanged.
	BumpNoop(ctx context.Context, tx wallet.PendingTx) error

	// PendingTxs returns the wallet's pending transactions from a nonce on, in nonce order, and counts unreadable ones.
	PendingTxs(ctx context.Context, id wallet.ID, from uint64) (txs []wallet.PendingTx, unreadable int, err error)

	// PendingTx returns the pending transaction of one nonce, or wallet.ErrUnknown, or ErrUnreadable.
	PendingTx(ctx context.Context, id wallet.ID, nonce uint64) (wallet.PendingTx, error)

	// DeletePendingTx removes a pending transaction. Removing a missing one is no error.
	DeletePendingTx(ctx context.Context, id wallet.ID, nonce uint64) error
}

// Wallets keeps the wallets. A spendable amount above wallet.Spendable's largest is stored as that. A change of a
// wallet that is not stored returns wallet.ErrUnknown and stores no wallet.
type Wallets interface {
	// Register stores r, without a record, if its wallet is not registered yet. Otherwise it changes nothing, and
	// returns ErrOtherRail if the wallet is another token's.
	Register(ctx context.Context, r wallet.Registration) error

	// SetState moves the wallet's registration from one state to another, at a time. If it is in the other already it
	// changes nothing; if in neither, or if the other does not fit its merchant, ErrChanged.
	SetState(ctx context.Context, id wallet.ID, from, to wallet.State, at time.Time) error

	// Retire moves the wallet's registration from Draining to Retired, and pauses the wallet for
	// wallet.RetiredReason, in one write, if next_nonce and its pause are still those of w and it
	// has no reservation. Otherwise ErrChanged. It does not change a retired wallet.
	Retire(ctx context.Context, w wallet.Wallet, at time.Time) error

	// Assign gives a draining wallet to a merchant, which makes it Assigned, or takes it from its merchant if that is
	// empty: then it stays draining. It changes registration and record in one write, if next_nonce, pause and merchant
	// are still those of w and it has no reservation. Otherwise ErrChanged. It does not change a wallet that is so.
	Assign(ctx context.Context, w wallet.Wallet, merchant string, at time.Time) error

	// Open stores w, and in its registration that it has a record. It registers an unregistered
	// wallet as draining, for the token of that contract, with its key in a secret. It does not change a stored wallet.
	// ErrChanged if the registration has another merchant than w.
	Open(ctx context.Context, w wallet.Wallet, of token.Address) error

	// Wallet returns a wallet, or wallet.ErrUnknown. If its record has the nonces and
	// does not decode in full, it is Damaged; otherwise, ErrUnreadable.
	Wallet(ctx context.Context, id wallet.ID) (wallet.Wallet, error)

	// Wallets returns every wallet that was ever registered for a rail. A registration that does not decode has the
	// state wallet.Damaged and counts as opened: it hides no other. If its token is unknown, it is of every rail of
	// its chain.
	Wallets(ctx context.Context, rail token.Coin) (wallet.Registry, error)

	// SetCompared stores a run's comparison of a rail with its chain, with the next Revision, if the stored one
	// has c's. Otherwise ErrChanged. It takes MaxNodes in c.Silent.
	SetCompared(ctx context.Context, rail token.Coin, c Comparison) error

	// Compared returns the last comparison, zero if there is none. A comparison copied into a
	// restored table does not cover the payments since, and is not returned.
	Compared(ctx context.Context, rail token.Coin) (Comparison, error)

	// Claim claims the wallet until a time for the run named by, if no other run's claim lasts beyond now. It reports
	// whether the run holds the claim. Claims save work; no promise relies on them. A claim that is held stores what
	// the run's last round saw, unless that is nil; it takes wallet.MaxInFlight in seen.Paid.
	Claim(ctx context.Context, id wallet.ID, by string, now, until time.Time, seen *wallet.Progress) (held bool, err error)

	// Reconcile stores the spendable balances, in the token's smallest unit
	// and in wei, PerMerchant and what the round saw, each unless it is nil, if no nonce was reserved or returned since w
	// was read, and w.Balance is still stored or w is Damaged, else ErrChanged. It takes as much of seen as Claim.
	Reconcile(ctx context.Context, w wallet.Wallet, balance, gas token.Amount, perMerchant map[string]uint64, seen *wallet.Progress) error

	// Advance raises next_nonce to next and stores noopsBelow, in one write, unless next_nonce is above next.
	Advance(ctx context.Context, id wallet.ID, next, noopsBelow uint64) error

	// Pause stops reservations and stores the reason, over any other. An empty reason is replaced by another.
	Pause(ctx context.Context, id wallet.ID, reason string) error

	// Repause changes the reason of the wallet's pause from one to another; empty means not paused. If the stored
	// reason is neither from nor to, it returns ErrChanged: a caller ends, or replaces, only the pause that it has
	// read.
	Repause(ctx context.Context, id wallet.ID, from, to string) error
}

// A Comparison is the last comparison of a rail with its chain by check-receipts.
type Comparison struct {
	At    time.Time   // when a run last compared every wallet; zero: never
	Final chain.Block // the newest block that most nodes called final; zero: none yet
	Seen  time.Time   // when enough nodes had Final last
	// Silent has the nodes, by host, that gave no valid answer in the last round, and since when.
	Silent   map[string]time.Time
	Revision uint64 // counts its writes

	// Ran is the start of the last run of check-receipts for the rail, also of one that no node answered, and Since
	// that of the first of the series of runs without a gap, which began after the tables were last restored. Abreast
	// is the start of the last run that found no wallet ahead of the tables, and none that is under suspicion.
	Ran, Since, Abreast time.Time
}

// DailyLimits keeps the spending of each merchant, and of each key with a limit, in a UTC day.
type DailyLimits interface {
	// Charge adds c to the day's tally under every limit of it, or to none: if one limit would be exceeded it returns
	// ErrDailyLimit and charges nothing, as ErrDayKeys does if the day counts MaxDayKeys keys and c's is new. A limit
	// that changes during the day counts at once; an amount above
	// 10^38-1 counts as 10^38-1. An error that is not ErrDailyLimit leaves the
	// outcome unknown: a day may be charged too much, never too little.
	Charge(ctx context.Context, c Charge) error

	// Refund takes the charge of a refused payment back. If one of the tallies is less, it changes nothing. It may be
	// repeated only when it was certainly not applied.
	Refund(ctx context.Context, c Charge) error

	// Charged returns the charges to the UTC day of at under a key's limit, or under the merchant's
	// if key is empty: zero where the limit has no such part.
	Charged(ctx context.Context, merchant, mode, key string, at time.Time) (amount token.Amount, count uint64, err error)
}

// A Charge is an amount taken from the daily limits of a merchant and a key.
type Charge struct {
	Merchant, Mode string
	At             time.Time // in the UTC day that is charged
	Amount         token.Amount
	Count          uint64 // of payments
	Limits         []payment.DailyLimit
}

// History lists payments for merchants. It may lag behind Payments, so no decision about money reads it.
type History interface {
	// List returns the payments of f.Merchant and f.Mode that match f, newest first, at most f.Limit, and the position
	// from which the list goes on, zero at its end. One call reads a few megabytes of the index at most, so that a page
	// may be short, or empty, before the end. It leaves out Prepared payments and payments that do not decode.
	List(ctx context.Context, f Filter) (page []payment.Payment, next Position, err error)

	// Entries reads the table whole, for audits and exports. It yields every payment, and every attempt of a no-op, in
	// no order, but maybe not those written meanwhile. An item that does not decode is an ErrUnreadable of its own; it
	// ends after any other error.
	Entries(ctx context.Context) iter.Seq2[Entry, error]
}

// An Entry is a payment, or the hash of a no-op's attempt.
type Entry struct {
	Payment payment.Payment // zero for a no-op
	Noop    chain.Hash
}

// A Filter selects the payments to list. Zero fields do not restrict.
type Filter struct {
	Merchant, Mode string
	Status         payment.Status
	Asset          token.Coin
	Reference      string    // the payment's own
	After, Before  time.Time // exclusive bounds of CreatedAt
	Limit          int       // 1 to 100; anything else is 100
	From           Position  // next of the page before
}

// A Position is a payment's place in a list: newest first, then by descending ID. The zero one is before the first.
type Position struct {
	CreatedAt time.Time
	ID        payment.ID
}

// IsZero reports whether p is the zero Position.
func (p Position) IsZero() bool { return p == Position{} }

// After reports whether p stands before other in a list: it is newer.
func (p Position) After(other Position) bool {
	return cmp.Or(p.CreatedAt.Compare(other.CreatedAt), cmp.Compare(p.ID, other.ID)) > 0
}
