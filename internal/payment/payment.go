// Package payment holds the life of a payment: its values, the moves that it
// may make, and the form in which merchants see it. It knows nothing of stores,
// nonces' owners, nodes, HTTP or AWS.
package payment

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"remit/internal/chain"
	"remit/internal/token"
)

// Operator is the merchant of the transfers that an operator makes with a stack's
// wallets. No API key can have it: a merchant's id begins with mer_.
const Operator = "operator"

// Ether is what an operator's transfer of ether moves, in wei. It has no contract.
var Ether = token.Token{Symbol: "ETH", Decimals: 18}

// A Payment is one transfer of a stablecoin to a merchant's payee, or an operator's
// transfer of the stablecoin or of ether between wallets and out of them. Payments
// are values: a move returns a changed copy, which means nothing until a Store
// has taken it.
type Payment struct {
	ID             ID
	Merchant       string // empty while the payment is known from the chain alone: see Recovered
	Mode           string // "test" or "live"
	IdempotencyKey string // Idempotency-Key, empty when none was sent
	Fingerprint    string // Request.Fingerprint
	To             token.Address
	Amount         token.Amount
	Reference      string
	Metadata       map[string]string

	Token    token.Token
	Network  string        // "base-sepolia"
	Wallet   token.Address // the wallet that pays; may change while Prepared
	Source   token.Address // whose coins it pays with, by an allowance granted to Wallet; zero: Wallet's own
	Tx       chain.Tx      // everything that is signed, but for the nonce
	Revision string        // changes with everything a signature depends on; see revisionOf. A store may forget it once the payment is committed

	State    State
	Nonce    uint64     // set once Committed
	Attempts []Attempt  // first the committed one, then every fee bump; all pay the same, or nothing
	TxHash   chain.Hash // of the first attempt: the payment's public name for ever

	Onchain chain.Hash    // the attempt that was mined; zero until final
	Block   uint64        // the block it was mined in; zero until final, or when none of ours was mined
	Fee     *token.Amount // what the mined transaction cost the wallet, in wei; nil until final, when none of ours was mined, and when the nodes did not agree on it
	Failure *Failure      // set when Failed
	Event   *Event        // set when final, serialised once

	Version   int64 // visible changes: 0 when Prepared, 1 when Committed, 2 when final
	CreatedAt time.Time
	UpdatedAt time.Time // of the last visible change
}

// An Attempt is one signed form of a payment's transaction.
type Attempt struct {
	Hash chain.Hash
	Raw  []byte // of one just signed; a store keeps bytes in the pending transaction alone, and gives none back here
	Fees chain.Fees
	Gas  uint64 // limit, in units of gas; zero: that of the payment's Tx
	At   time.Time
	Noop bool // it pays nothing: see Cancel
}

// A Failure says why a payment will never be made.
type Failure struct {
	Code    FailureCode `json:"code"`
	Message string      `json:"message"`
}

// A FailureCode is a stable word of API for a Failure.
type FailureCode string

// Every way for a committed payment to fail. All are judged at finality.
const (
	ExecutionReverted FailureCode = "execution_reverted"
	TransferMissing   FailureCode = "transfer_missing"
	AmountDiffers     FailureCode = "amount_differs"
	NonceConsumed     FailureCode = "nonce_consumed"
)

// failures are the messages merchants read.
var failures = map[FailureCode]string{
	ExecutionReverted: "The token contract reverted the transfer. Nothing was paid.",
	TransferMissing:   "The transaction was mined without the transfer. Nothing was paid.",
	AmountDiffers:     "The token moved %s units to the recipient instead of %s.",
	NonceConsumed:     "Another transaction took this payment's place. Nothing was paid.",
}

// New returns the payment that answers r, unsigned and not yet stored.
func New(id ID, r Request, coin token.Token, network string, now time.Time) Payment {
	now = now.UTC().Truncate(time.Millisecond)
	return Payment{
		ID: id, Merchant: r.Merchant, Mode: r.Mode, IdempotencyKey: r.IdempotencyKey, Fingerprint: r.Fingerprint(),
		To: r.To, Amount: r.Amount, Reference: r.Reference, Metadata: r.Metadata,
		Token: coin, Network: network, State: Prepared, CreatedAt: now, UpdatedAt: now,
	}
}

// Recovered returns the payment of a transfer that was found on the chain, unsigned
// and not yet stored. The chain does not tell its merchant, which stays empty until
// Adopted. at is the time of its block.
func Recovered(id ID, to token.Address, amount token.Amount, coin token.Token, network string, at time.Time) Payment {
	at = at.UTC().Truncate(time.Millisecond)
	return Payment{ID: id, To: to, Amount: amount, Token: coin, Network: network, State: Prepared, CreatedAt: at, UpdatedAt: at}
}

// Adopted returns a Recovered payment as the answer to r, a request whose merchant,
// mode and key give its ID. Reference and metadata are those of r: they are not on
// the chain.
func (p Payment) Adopted(r Request) Payment {
	p.Merchant, p.Mode, p.IdempotencyKey, p.Fingerprint = r.Merchant, r.Mode, r.IdempotencyKey, r.Fingerprint()
	p.Reference, p.Metadata = r.Reference, r.Metadata
	return p
}

// Redacted returns a final payment without its reference and metadata, which are its
// merchant's words, in its event too. What money needs stays: the fingerprint, by which
// a repeated request is known, and the Idempotency-Key. It returns an error unless p is
// final.
func (p Payment) Redacted() (Payment, error) {
	if !p.State.Final() {
		return Payment{}, fmt.Errorf("%s is %s: its words are erased once it is confirmed or failed", p.ID, p.State)
	}
	p.Reference, p.Metadata = "", nil
	event, err := eventOf(p, Committed.Status())
	p.Event = &event
	return p, err
}

// AssignedTo returns p to be paid by wallet with tx. Only a Prepared payment may be
// assigned again: its store refuses once it is committed.
func (p Payment) AssignedTo(wallet token.Address, tx chain.Tx) Payment {
	p.Wallet, p.Tx = wallet, tx
	p.Revision = revisionOf(p)
	return p
}

// Ether reports whether the payment moves ether, not the stablecoin.
func (p Payment) Ether() bool { return p.Token == Ether }

// Coins returns how much of the stablecoin the payment takes from what its wallet may
// spend.
func (p Payment) Coins() token.Amount {
	if p.Ether() {
		return token.Amount{}
	}
	return p.Amount
}

// Transfer returns the transfer that the payment promises.
func (p Payment) Transfer() chain.Transfer {
	from := p.Source
	if from.IsZero() {
		from = p.Wallet
	}
	return chain.Transfer{Contract: p.Token.Contract, From: from, To: p.To, Amount: p.Amount}
}

// Judge returns the verdict on the receipt r of one of p's attempts. Ether has moved
// with every attempt that succeeded but one of Cancel, and leaves no log.
func (p Payment) Judge(r chain.Receipt) chain.Verdict {
	switch {
	case !p.Ether() || !r.Succeeded:
		return p.Transfer().Judge(r)
	case slices.ContainsFunc(p.Attempts, func(a Attempt) bool { return a.Hash == r.Tx && a.Noop }):
		return chain.Missing
	default:
		return chain.Transferred
	}
}

// Call returns the call by which a wallet makes p, with the call data of CallData.
func (p Payment) Call(wallet token.Address, memo bool) chain.Call {
	if p.Ether() {
		return chain.Call{From: wallet, To: p.To, Value: p.Amount}
	}
	return chain.Call{From: wallet, To: p.Token.Contract, Data: p.CallData(memo)}
}

// CallData returns the call data of the payment's transfer. With memo, the ID's
// bytes follow the arguments, where Solidity reads nothing: then the chain itself says
// which payment a transaction makes. Ether moves without any: its recipient may be a
// contract.
func (p Payment) CallData(memo bool) []byte {
	if p.Ether() {
		return nil
	}
	data := chain.TransferData(p.To, p.Amount)
	if !p.Source.IsZero() {
		data = chain.TransferFromData(p.Source, p.To, p.Amount)
	}
	if memo {
		data = append(data, p.ID.Memo()...)
	}
	return data
}

// Memo reports whether the payment's ID follows its transfer in the call data.
func (p Payment) Memo() bool { return len(p.Tx.Data) > len(p.CallData(false)) }

// LastAttempt returns the newest attempt: none has higher fees. It panics when p has
// none: only Prepared payments do.
func (p Payment) LastAttempt() Attempt { return p.Attempts[len(p.Attempts)-1] }

// Gas returns the gas limit of the newest attempt. It panics when p has none.
func (p Payment) Gas() uint64 { return cmp.Or(p.LastAttempt().Gas, p.Tx.Gas) }

// Hashes returns the hashes of all attempts, oldest first.
func (p Payment) Hashes() []chain.Hash {
	hashes := make([]chain.Hash, len(p.Attempts))
	for i, a := range p.Attempts {
		hashes[i] = a.Hash
	}
	return hashes
}

// Commit binds a Prepared payment to its signed bytes. From the moment a store has
// taken the result, the payment will be made by these bytes or a fee bump of
// them, and by no other nonce, or not at all.
func (p Payment) Commit(signed chain.Signed, now time.Time) (Payment, error) {
	p, err := p.move(Committed, now)
	if err != nil {
		return Payment{}, err
	}
	p.Nonce, p.TxHash = signed.Nonce, signed.Hash
	p.Attempts = []Attempt{{Hash: signed.Hash, Raw: signed.Raw, Fees: p.Tx.Fees, At: now.UTC()}}
	return p, nil
}

// Bump adds an attempt at the same nonce: signed is tx, which differs from the
// payment's Tx in its fees and gas limit only. It is no visible change. It returns
// an error unless p is Committed.
func (p Payment) Bump(signed chain.Signed, tx chain.Tx, now time.Time) (Payment, error) {
	return p.retry(signed, tx, now, false)
}

// Cancel adds an attempt at the same nonce that pays nothing, to a payment whose
// bytes no node will ever take. Which attempt is mined decides: the payment ends
// as Confirmed, or as Failed with TransferMissing. It is no visible change. It
// returns an error unless p is Committed.
func (p Payment) Cancel(signed chain.Signed, tx chain.Tx, now time.Time) (Payment, error) {
	return p.retry(signed, tx, now, true)
}

func (p Payment) retry(signed chain.Signed, tx chain.Tx, now time.Time, noop bool) (Payment, error) {
	if p.State != Committed {
		return Payment{}, p.forbidden(Committed)
	}
	a := Attempt{Hash: signed.Hash, Raw: signed.Raw, Fees: tx.Fees, At: now.UTC(), Noop: noop}
	if tx.Gas != p.Tx.Gas {
		a.Gas = tx.Gas
	}
	p.Attempts = append(slices.Clone(p.Attempts), a)
	return p, nil
}

// Confirm ends the payment as paid by the final receipt r, event included.
func (p Payment) Confirm(r chain.Receipt, now time.Time) (Payment, error) {
	return p.end(Confirmed, r, nil, now)
}

// Fail ends the payment as never paid in full, event included. r is the final
// receipt that says so, or zero when another transaction took the nonce.
func (p Payment) Fail(code FailureCode, r chain.Receipt, now time.Time) (Payment, error) {
	message := failures[code]
	if code == AmountDiffers {
		message = fmt.Sprintf(message, p.Transfer().Arrived(r), p.Amount)
	}
	return p.end(Failed, r, &Failure{Code: code, Message: message}, now)
}

func (p Payment) end(to State, r chain.Receipt, failure *Failure, now time.Time) (Payment, error) {
	previous := p.State.Status()
	p, err := p.move(to, now)
	if err != nil {
		return Payment{}, err
	}
	p.Onchain, p.Block, p.Fee, p.Failure = r.Tx, r.Block, r.Fee, failure
	event, err := eventOf(p, previous)
	if err != nil {
		return Payment{}, fmt.Errorf("writing the event of %s: %w", p.ID, err)
	}
	p.Event = &event
	return p, nil
}

func (p Payment) move(to State, now time.Time) (Payment, error) {
	if !slices.Contains(moves[p.State], to) {
		return Payment{}, p.forbidden(to)
	}
	p.State, p.UpdatedAt = to, now.UTC().Truncate(time.Millisecond)
	p.Version++
	return p, nil
}

// A Request is a merchant's request for a payment, already valid field by field.
type Request struct {
	Merchant       string
	Mode           string // "test" or "live"
	IdempotencyKey string // Idempotency-Key; empty when none was sent
	To             token.Address
	Amount         token.Amount
	Reference      string            // empty when absent
	Metadata       map[string]string // nil and empty mean the same
	Key            KeyLimits         // of the API key that asks; no part of what the request means
}

// KeyLimits are the limits that an API key and its merchant set to the payments that
// it asks for.
// The zero KeyLimits sets none.
type KeyLimits struct {
	Maximum token.Amount // of one payment; zero: none
	Daily   []DailyLimit // of the key and of the keys that it descends from
	Book    bool         // only active entries of the merchant's recipient book are paid

	MerchantMaximum token.Amount // of one payment, in place of the stack's; zero: the stack's
	MerchantDaily   token.Amount // of the merchant in a UTC day, in place of the stack's; zero: the stack's
}

// A DailyLimit is the most that is paid in a UTC day on the account of one key, or
// of a whole merchant.
type DailyLimit struct {
	Key    string       // "key_…"; empty: the merchant
	Amount token.Amount // in all; zero: any
	Count  uint64       // of payments; zero: any
}

// Fingerprint identifies the meaning of the request: recipient, amount,
// reference and metadata, in any order of fields and spelling of numbers. Two
// requests under one key must have the same one.
func (r Request) Fingerprint() string {
	amount := r.Amount.Bytes32()
	parts := []string{"request", string(r.To[:]), string(amount[:]), r.Reference}
	for _, name := range slices.Sorted(maps.Keys(r.Metadata)) {
		parts = append(parts, name, r.Metadata[name])
	}
	return digest(parts...)
}
