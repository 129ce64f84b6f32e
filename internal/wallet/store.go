package wallet

import (
	"context"
	"errors"
	"time"

	"remit/internal/payment"
	"remit/internal/token"
)

// Refusals of a reservation. Each means that nothing was reserved.
var (
	ErrUnknown = errors.New("wallet has no record yet")
	ErrPaused  = errors.New("wallet is paused")
	ErrCeiling = errors.New("wallet has no nonce left")
	ErrToken   = errors.New("wallet has too little of the token")
	ErrGas     = errors.New("wallet has too little ether for gas")
)

var (
	// ErrNonceTaken reports a nonce whose pending transaction is stored already, by other bytes.
	ErrNonceTaken = errors.New("nonce has a pending transaction already")
	// ErrChanged reports a wallet or pending transaction that is no longer what the caller
	// read. Read it again.
	ErrChanged = errors.New("wallet changed since it was read")
	// ErrNoKey reports a wallet whose key the service does not hold.
	ErrNoKey = errors.New("no key for wallet")
)

// A Request asks for a nonce.
type Request struct {
	Wallet  ID
	Payment payment.ID
	Token   token.Amount // tied up until the payment is mined
	Gas     token.Amount // wei, the same
	At      time.Time
}

// A Store keeps wallets and pending transactions. Every read is strongly consistent. An error
// that is none of the above leaves the outcome unknown: the write may have
// been applied, or may still be. Every write may be repeated.
// paymenttest checks every promise here, on every implementation.
type Store interface {
	Nonces
	PendingTxs
	Wallets
}

// Nonces hands nonces out.
type Nonces interface {
	// Reserve gives r.Payment the next nonce of r.Wallet, and ties up r.Token
	// and r.Gas, in one conditional write that no other item takes part in. If
	// the payment holds a reservation there already it changes nothing: that nonce
	// is still its own, paused or not. It returns the wallet as it is after
	// that, the reservation in w.Reservations[r.Payment]. A refusal (ErrUnknown, ErrPaused,
	// ErrCeiling, ErrToken, ErrGas, judged in this order) comes with the wallet
	// as it is.
	Reserve(ctx context.Context, r Request) (w Wallet, err error)

	// Release ends the payment's reservation of pending transaction.Nonce on pending transaction's wallet, if it
	// holds one of that very nonce, whosever pending transaction it is. The caller must have
	// seen pending transaction stored: that is what the argument stands for. Releasing what
	// is not held is no error.
	Release(ctx context.Context, id payment.ID, pendingTx PendingTx) error

	// RaiseCeiling sets the ceiling if that raises it. ErrUnknown if the
	// wallet is not stored.
	RaiseCeiling(ctx context.Context, id ID, ceiling uint64) error
}

// PendingTxs keeps what is signed.
type PendingTxs interface {
	// Commit stores, all or nothing: p (just committed) over the stored payment,
	// if that is Prepared with the same Revision, else payment.ErrChanged; its
	// pending transaction, if the nonce has none, else ErrNonceTaken; and its hash. When both
	// fail, payment.ErrChanged wins.
	Commit(ctx context.Context, p payment.Payment) error

	// AddAttempt stores, all or nothing: the newest attempt of p in payment
	// and pending transaction, and its hash, if both hold exactly the attempts before it and
	// p is Committed. Otherwise ErrChanged.
	AddAttempt(ctx context.Context, p payment.Payment) error

	// PutNoop stores a no-op's pending transaction and hash if the nonce has no pending transaction, else
	// ErrNonceTaken.
	PutNoop(ctx context.Context, s PendingTx) error

	// BumpNoop stores the newest attempt of a no-op's pending transaction and its hash if the
	// pending transaction holds exactly the attempts before it, else ErrChanged.
	BumpNoop(ctx context.Context, s PendingTx) error

	// PendingTxs returns the wallet's pending transactions in nonce order. Items that do not
	// decode are left out and counted.
	PendingTxs(ctx context.Context, id ID) (pendingTxs []PendingTx, unreadable int, err error)

	// PendingTx returns one nonce's pending transaction, or ErrUnknown, or
	// payment.ErrUnreadable.
	PendingTx(ctx context.Context, id ID, nonce uint64) (PendingTx, error)

	// DeletePendingTx removes a pending transaction. Removing one that is gone is no error.
	DeletePendingTx(ctx context.Context, id ID, nonce uint64) error
}

// Wallets keeps the accounts. What is spendable is kept up to Spendable. A
// change of a wallet that is not stored is ErrUnknown and makes none.
type Wallets interface {
	// Open stores w, and its ID in the list of wallets, if nothing is stored for it.
	// An existing wallet is left as it is.
	Open(ctx context.Context, w Wallet) error

	// Wallet returns a wallet, or ErrUnknown.
	Wallet(ctx context.Context, id ID) (Wallet, error)

	// Wallets returns every wallet ever opened on a chain, sorted by address.
	Wallets(ctx context.Context, chainID uint64) ([]ID, error)

	// Claim claims the wallet until a time for a run called by, if nobody
	// else's claim lasts beyond now. It reports whether the claim is held.
	// Claims save work; nothing relies on them.
	Claim(ctx context.Context, id ID, by string, now, until time.Time) (held bool, err error)

	// Reconcile stores what is spendable if next_nonce is still next, else
	// ErrChanged.
	Reconcile(ctx context.Context, id ID, next uint64, coin, gas token.Amount) error

	// Advance raises next_nonce to next if that raises it, and pauses the
	// wallet for reason, in one write. A pause without a reason gets one.
	Advance(ctx context.Context, id ID, next uint64, reason string) error

	// Pause stops reservations, for reason from now on.
	Pause(ctx context.Context, id ID, reason string) error

	// Repause sets why the wallet is paused to to, if it is paused for from
	// now; empty means not paused. Otherwise, unless it is to already,
	// ErrChanged: nobody ends, or hides, a pause that he has not seen.
	Repause(ctx context.Context, id ID, from, to string) error
}
