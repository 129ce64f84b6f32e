// Package payment holds the life of a payment: its values, its moves, and its form for merchants.
// It knows no stores, wallets' nonces, nodes, HTTP or AWS.
package payment

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/disburser"
	"github.com/remit-payouts/remit/internal/evm/token"
)

// Operator is the merchant of an operator's transfers with a stack's wallets. No API key can have
// it: a merchant's id begins with mer_.
const Operator = "operator"

// CallKey is the metadata of an operator's call of a contract: the call data, in hex. Such a call
// is a transfer of ether, maybe none, with data.
const CallKey = "call"

// Ether is the asset of an operator's transfer of ether, in wei. It has no contract.
var Ether = token.Token{Symbol: "ETH", Decimals: 18}

// An Entry is one output of a batch.
type Entry struct {
	To        token.Address
	Amount    token.Amount // in the token's smallest unit, above zero
	Reference string       // empty when absent
}

// A Payment is one transfer of a stablecoin to a merchant's payee, a batch of such transfers in one transaction, all
// or none, or an operator's transfer of the stablecoin or of ether between wallets and out of them. Payments are
// values: a move returns a changed copy, which means nothing until a Store has taken it.
type Payment struct {
	ID             ID
	Merchant       string        // empty while the payment is known from the chain alone: see package onchain
	Mode           string        // "test" or "live"
	IdempotencyKey string        // Idempotency-Key, empty when none was sent
	Fingerprint    string        // Request.Fingerprint
	To             token.Address // zero in a batch of several entries
	Amount         token.Amount  // of all entries together
	// Of a batch, in the order asked for; nil: one payment. A batch of one is a transfer like any other on the chain.
	Entries   []Entry
	Reference string
	Metadata  map[string]string
	Guarded   bool // a guard names it: store.Guard
	Proposal  bool // a proposal holds its key: a refused release never frees it

	Token         token.Token
	Network       string        // "base-sepolia"
	BatchContract token.Address // the Disburser that pays several entries; zero: the token's own transfer pays
	Wallet        token.Address // the wallet that pays; may change while Prepared
	WalletOf      string        // from the commit on, the merchant that it was assigned to; empty: a common wallet
	Tx            chain.Tx      // everything that is signed, but for the nonce
	// Changes with everything a signature depends on; see revisionOf. A store may forget it once the
	// payment is committed.
	Revision string

	State    State
	Nonce    uint64     // set once Committed
	Attempts []Attempt  // first the committed one, then every fee bump; all pay the same, or nothing
	TxHash   chain.Hash // of the first attempt: the payment's public name for ever

	// When it was first stored that the nonce is mined; zero: it was not, or no webhook names that event.
	MinedAt time.Time

	Onchain chain.Hash // the attempt that was mined; zero until final
	Block   uint64     // the block it was mined in; zero until final, or when none of ours was mined
	// The wallet's cost of the mined transaction, in wei. Nil until final, if no transaction of
	// ours was mined, and if the nodes did not agree on the cost.
	Fee     *token.Amount
	Failure *Failure // set when Failed
	Event   *Event   // set when final, serialised once

	Version   int64 // visible changes: 0 when Prepared, 1 when Committed, 2 when final
	CreatedAt time.Time
	UpdatedAt time.Time // of the last visible change
}

// An Attempt is one signed form of a payment's transaction.
type Attempt struct {
	Hash chain.Hash
	Raw  []byte // only of a new attempt: a store keeps the bytes in the pending transaction
	Fees chain.Fees
	Gas  uint64 // limit, in units of gas; zero: the limit of the payment's Tx
	At   time.Time
	Noop bool // it pays nothing: see Cancel
}

// A Failure is the reason why a payment will never be made.
type Failure struct {
	Code    FailureCode `json:"code"`
	Message string      `json:"message"`
}

// A FailureCode is a stable code of a Failure in the API.
type FailureCode string

// Every way for a committed payment to fail. All are judged at finality.
const (
	ExecutionReverted FailureCode = "execution_reverted"
	TransferMissing   FailureCode = "transfer_missing"
	AmountDiffers     FailureCode = "amount_differs"
	NonceConsumed     FailureCode = "nonce_consumed"
)

var failures = map[FailureCode]string{
	ExecutionReverted: "The token contract reverted the transfer. Nothing was paid.",
	TransferMissing:   "The transaction was mined without the transfer. Nothing was paid.",
	AmountDiffers:     "The token moved %s units to the recipient instead of %s.", // of a batch: in all
	NonceConsumed:     "Another transaction took this payment's place. Nothing was paid.",
}

// New returns the payment that answers r, unsigned and not yet stored.
func New(id ID, r Request, coin token.Token, network string, now time.Time) Payment {
	now = now.UTC().Truncate(time.Millisecond)
	return Payment{
		ID: id, Merchant: r.Merchant, Mode: r.Mode, IdempotencyKey: r.IdempotencyKey, Fingerprint: r.Fingerprint(),
		To: r.To, Amount: r.Amount, Entries: r.Entries, Reference: r.Reference, Metadata: r.Metadata,
		Guarded: r.Key.Guard > 0, Token: coin, Network: network, State: Prepared, CreatedAt: now, UpdatedAt: now,
	}
}

// Pays reports whether p moves the amounts of outputs to their recipients, in this order. The chain
// records no more of a request.
func (p Payment) Pays(outputs []Entry) bool {
	return slices.EqualFunc(p.Outputs(), outputs, func(a, b Entry) bool { return a.To == b.To && a.Amount == b.Amount })
}

// Adopted returns a payment that was found on the chain as the answer to r, a request whose merchant, mode and key
// give its ID. It takes references and metadata from r: they are not on the chain. Its Version rises.
func (p Payment) Adopted(r Request) Payment {
	p.Merchant, p.Mode, p.IdempotencyKey, p.Fingerprint = r.Merchant, r.Mode, r.IdempotencyKey, r.Fingerprint()
	p.Reference, p.Metadata, p.Entries = r.Reference, r.Metadata, r.Entries
	p.Version++
	return p
}

// Redacted returns a final payment, and its event, without references and metadata, the merchant's
// words. It keeps everything that money needs: the fingerprint, which identifies a repeated
// request, and the Idempotency-Key. It returns an error unless p is final.
func (p Payment) Redacted() (Payment, error) {
	if !p.State.Final() {
		return Payment{}, fmt.Errorf("%s is %s: its words are erased once it is confirmed or failed", p.ID, p.State)
	}
	p.Reference, p.Metadata, p.Entries = "", nil, slices.Clone(p.Entries)
	for i := range p.Entries {
		p.Entries[i].Reference = ""
	}
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

// Coin returns the asset of the payment's transaction.
func (p Payment) Coin() token.Coin {
	return token.Coin{ChainID: p.Tx.ChainID, Contract: p.Token.Contract}
}

// Ether reports whether the payment moves ether, not the stablecoin.
func (p Payment) Ether() bool { return p.Token == Ether }

// Coins returns how much of its wallet's stablecoin the payment takes.
func (p Payment) Coins() token.Amount {
	if p.Ether() {
		return token.Amount{}
	}
	return p.Amount
}

// PaidNobody reports whether the payment has failed, and no coin has moved.
func (p Payment) PaidNobody() bool {
	return p.State == Failed && p.Failure != nil && p.Failure.Code != AmountDiffers
}

// Outputs returns the entries of a batch, or the payment as the only one.
func (p Payment) Outputs() []Entry { return outputs(p.Entries, p.To, p.Amount) }

func outputs(entries []Entry, to token.Address, amount token.Amount) []Entry {
	if len(entries) == 0 {
		return []Entry{{To: to, Amount: amount}}
	}
	return entries
}

// Transfers returns the transfers that the payment promises, all or none.
func (p Payment) Transfers() (all []chain.Transfer) {
	for _, e := range p.Outputs() {
		all = append(all, chain.Transfer{Contract: p.Token.Contract, From: p.Wallet, To: e.To, Amount: e.Amount})
	}
	return all
}

// Judge returns the verdict on the receipt r of one of p's attempts. Ether leaves no log: it has
// moved with every attempt that succeeded, except one of Cancel.
func (p Payment) Judge(r chain.Receipt) chain.Verdict {
	switch {
	case !p.Ether() || !r.Succeeded:
		return chain.Judge(r, p.Transfers()...)
	case p.Cancelled(r.Tx):
		return chain.Missing
	default:
		return chain.Transferred
	}
}

// Cancelled reports whether a transaction is an attempt of Cancel, which pays nothing.
func (p Payment) Cancelled(tx chain.Hash) bool {
	return slices.ContainsFunc(p.Attempts, func(a Attempt) bool { return a.Hash == tx && a.Noop })
}

// HasNoop reports whether an attempt of Cancel may use the payment's nonce.
func (p Payment) HasNoop() bool {
	return slices.ContainsFunc(p.Attempts, func(a Attempt) bool { return a.Noop })
}

// Call returns the call with which a wallet makes p: a transfer, a batch of transfers, or ether.
// With memo, the ID's bytes follow the arguments of transfers, where Solidity ignores them: the
// chain itself then records which payment a transaction makes. A transfer of ether has no memo: its
// recipient may be a contract, and an operator's call has the operator's data.
func (p Payment) Call(wallet token.Address, memo bool) chain.Call {
	c := chain.Call{From: wallet, To: p.Token.Contract}
	switch {
	case p.Ether():
		c.To, c.Value = p.To, p.Amount
		c.Data, _ = hex.DecodeString(p.Metadata[CallKey]) // written by package dispatch
		return c
	case !p.BatchContract.IsZero():
		var outputs []disburser.Entry
		for _, e := range p.Entries {
			outputs = append(outputs, disburser.Entry{To: e.To, Amount: e.Amount})
		}
		c.To, c.Batch, c.Data = p.BatchContract, true, disburser.Calldata(p.Token.Contract, outputs, nil)
	default:
		c.Data = chain.TransferData(p.To, p.Amount)
	}
	if memo {
		c.Data = append(c.Data, p.ID.Memo()...)
	}
	return c
}

// Memo reports whether the payment's ID follows its transfer in the call data.
func (p Payment) Memo() bool { return len(p.Tx.Data) > len(p.Call(token.Address{}, false).Data) }

// LastAttempt returns the newest attempt, which has the highest fees. It panics if p has none, as if Prepared.
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

// Commit binds a Prepared payment to its signed bytes. Once a store has the result, the payment is
// made by these bytes or a fee bump of them, at no other nonce, or not at all.
func (p Payment) Commit(signed chain.Signed, now time.Time) (Payment, error) {
	p, err := p.move(Committed, now)
	if err != nil {
		return Payment{}, err
	}
	p.Nonce, p.TxHash = signed.Nonce, signed.Hash
	p.Attempts = []Attempt{{Hash: signed.Hash, Raw: signed.Raw, Fees: p.Tx.Fees, At: now.UTC()}}
	return p, nil
}

// Bump adds an attempt at the same nonce: signed is tx, which differs from the payment's Tx only in
// fees and gas limit. Merchants see no change. It returns an error unless p is Committed.
func (p Payment) Bump(signed chain.Signed, tx chain.Tx, now time.Time) (Payment, error) {
	return p.retry(signed, tx, now, false)
}

// Cancel adds an attempt at the same nonce that pays nothing, to a payment whose bytes no node will
// ever accept. The mined attempt decides: the payment ends as Confirmed, or as Failed with
// TransferMissing. Merchants see no change. It returns an error unless p is Committed.
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

// Fail ends the payment as never paid in full, event included. r is the final receipt that proves
// it, or zero if another transaction used the nonce.
func (p Payment) Fail(code FailureCode, r chain.Receipt, now time.Time) (Payment, error) {
	message := failures[code]
	switch {
	case code == ExecutionReverted && r.Reason != "":
		message = strings.Replace(message, ".", fmt.Sprintf(" (\"%s\").", r.Reason), 1)
	case code == AmountDiffers:
		message = fmt.Sprintf(message, chain.Arrived(r, p.Transfers()...), p.Amount)
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
