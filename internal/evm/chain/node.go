package chain

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/remit-payouts/remit/internal/evm/token"
)

// Errors a Node answers with. Any other error means that the node gave no
// usable answer: nothing may be concluded from it.
var (
	// ErrReverted reports a call that the contract refused when it was
	// simulated.
	ErrReverted = errors.New("execution reverted")
	// ErrTooLarge reports a Batch that needs more gas than a block, or a
	// transaction, may have.
	ErrTooLarge = errors.New("call needs more gas than a transaction may have")
	// ErrCode reports a Batch to an address that has other code than the batch contract,
	// or none: without code every call succeeds, and pays nobody.
	ErrCode = errors.New("the batch contract is not there")
	// ErrListed reports a recipient that is on the list of the call's Screening.
	ErrListed = errors.New("recipient is on the sanctions list")
	// ErrRejected reports a question to which the node, which is up, answered
	// with an error of its own.
	ErrRejected = errors.New("node rejected")
	// ErrUnavailable reports that no configured node gave a usable answer.
	ErrUnavailable = errors.New("no node answered")
	// ErrWrongChain reports a node of another chain. Its answers are not ours.
	ErrWrongChain = errors.New("node serves another chain")
)

// A Call is a contract call to simulate.
type Call struct {
	From, To token.Address
	Value    token.Amount // wei
	Data     []byte
	Batch    bool // To is to be the batch contract; such a call may be ErrCode or ErrTooLarge
	ByCall   bool // a transfer that is executed beside its estimate: it is ErrReverted also where the token returns false
	// Within is the gas within which a transfer that is ByCall is executed, once, in place
	// of an estimate; zero: it is estimated.
	Within uint64
	Screening
}

// maxGas is the most gas of one transaction (EIP-7825, in force since the fork Osaka).
const maxGas = 1 << 24

// Fits reports whether a transaction may have the gas limit of an estimate on a chain
// whose blocks have blockGas.
func Fits(estimate, blockGas uint64) bool { return GasLimit(estimate) <= min(blockGas, maxGas) }

// A Screening asks a list contract, isSanctioned(address) as Chainalysis deploys it on
// many chains, for recipients. The zero Screening asks nothing.
type Screening struct {
	List       token.Address
	Recipients []token.Address
}

// An EntryError is an error that concerns one of several recipients.
type EntryError struct {
	Index int // from 0
	Err   error
}

func (e *EntryError) Error() string { return fmt.Sprintf("entry %d: %v", e.Index, e.Err) }

// Unwrap returns Err.
func (e *EntryError) Unwrap() error { return e.Err }

// A Market is the price of gas in a block now, in wei per gas, and of what chains
// charge beside gas.
type Market struct {
	BaseFee token.Amount // of the next block
	Tip     token.Amount // that the node suggests
	L1Fee   token.Amount // wei that a transfer pays for its data on L1 and to the chain's operator; zero where gas is all that is paid
}

// A Head is the end of one node's chain.
type Head struct {
	Number uint64 // of the latest block
	Final  uint64 // of the highest block that the confirmation rule calls final
}

// An Account is one node's account of one wallet at one block.
type Account struct {
	Head
	Mined   uint64 // transactions of the wallet in blocks up to the head: its next nonce on the chain
	Pending uint64 // the same with the node's own pool counted, now
	Balance token.Amount
	Gas     token.Amount // ether, in wei; of a token that is the gas, the same balance to the wei; zero where there is none
}

// A Node is one configured JSON-RPC endpoint. ethrpc.Node is the real one.
// Each method is one HTTP request but TxAtNonce, Transfers, and those with more calls
// than the node takes at once; each may be repeated.
type Node interface {
	// String names the node in logs: its host, never its path, which may
	// hold a provider's key.
	String() string

	// Fees returns the price of gas in the next block.
	Fees(ctx context.Context) (Market, error)

	// Estimate simulates the call and returns the gas it needs, or ErrReverted; for a batch the
	// error is an EntryError if the node gives the contract's reason. With a Screening it returns
	// ErrListed in an EntryError whatever the call does, and another error unless the list contract
	// clears every recipient. Transfers also get the gas that they need once recipients hold
	// nothing (Call.ToNewHolders). A Batch is ErrTooLarge unless it Fits the latest block, and
	// ErrCode unless its address has the code of package disburser, whatever it does. A call that
	// passes Within its gas needs that much; any other call is estimated.
	Estimate(ctx context.Context, call Call) (gas uint64, err error)

	// Head returns the end of the node's chain now.
	Head(ctx context.Context, rule ConfirmationRule) (Head, error)

	// Account reads a wallet's count and balances at the head's block, which the
	// node has given. All of them belong to that block, also where the node
	// answers the calls of a batch in any order. With the zero Head each of them
	// is of the latest block, and they may be of different ones.
	Account(ctx context.Context, wallet, coin token.Address, head Head) (Account, error)

	// Count returns how many transactions of a wallet are in blocks up to the
	// numbered one.
	Count(ctx context.Context, wallet token.Address, block uint64) (uint64, error)

	// Receipts returns the receipts that the node has for hashes, in no
	// particular order. A receipt that is absent proves nothing. Receipts that
	// were read before an error are returned with it.
	Receipts(ctx context.Context, hashes []Hash) ([]Receipt, error)

	// BlockHashes returns the hash of each numbered block on the node's
	// canonical chain, zero where it has none, and with an error also where it
	// did not say; or nothing at all with an error.
	BlockHashes(ctx context.Context, numbers []uint64) ([]Hash, error)

	// BlockTime returns the time of a block on the node's canonical chain, in UTC.
	// A block that the node does not have is an error.
	BlockTime(ctx context.Context, number uint64) (time.Time, error)

	// TxAtNonce returns the hash of the transaction by which wallet used
	// nonce, read from the block itself (not from the receipt index, which
	// may lag), if that block is final at or below the block number final.
	// It returns the zero Hash when the nonce is not used by then, and an
	// error when the node does not know.
	TxAtNonce(ctx context.Context, wallet token.Address, nonce, final uint64) (Hash, error)

	// Transfers returns the transfers of a token out of wallets in the blocks
	// from first to last, in the order of the chain, each once, but not those of
	// nothing: anyone can have a token log that any wallet sent 0 units. All of
	// these blocks must exist. With an error comes none.
	Transfers(ctx context.Context, coin token.Address, wallets []token.Address, first, last uint64) ([]LoggedTransfer, error)

	// Transactions returns the mined transactions that the node has under hashes,
	// in their order. One that is absent proves nothing. With an error comes none.
	Transactions(ctx context.Context, hashes []Hash) ([]MinedTx, error)

	// Send hands signed bytes to the node's pool and returns its Reply. A missing answer is the
	// Ambiguous reply.
	Send(ctx context.Context, raw []byte) Reply
}

// A Reply is a node's answer to eth_sendRawTransaction.
type Reply struct {
	Class  Class
	Detail string // the node's own words, for logs only
	// Unasked reports that the node was not asked (ErrBusy).
	Unasked bool
}

// A Class is the meaning of a reply for the transaction.
type Class string

// The classes, from best to worst. A transaction stays stored and is sent again
// until its nonce is mined, whichever class a node answers.
const (
	Accepted    Class = "accepted"      // in the pool of this node
	Known       Class = "already_known" // it was already
	Full        Class = "pool_full"     // same bytes later
	FeeTooLow   Class = "fee_too_low"   // same bytes later, or a bump
	GasTooLow   Class = "gas_too_low"   // the gas limit does not cover the charges before the call runs: a higher limit
	Gap         Class = "nonce_gap"     // predecessors are missing: deliver them, then again
	NonceTooLow Class = "nonce_too_low" // mined, or the nonce was used by another: ask for receipts
	Replacement Class = "replacement"   // something else holds the nonce in the pool: never success
	Funds       Class = "funds"         // the wallet cannot pay for it now
	Ambiguous   Class = "ambiguous"     // maybe accepted: same bytes, for ever
	Wrong       Class = "wrong"         // no node will ever take these bytes
)

// Held reports whether the node holds the transaction in its pool.
func (c Class) Held() bool { return c == Accepted || c == Known }

// ranks orders classes when several nodes answered. The best answer counts,
// since the network can mine the bytes that one node holds.
var ranks = map[Class]int{
	Accepted: 0, Known: 1, NonceTooLow: 2, Ambiguous: 3, Gap: 4, Full: 5, FeeTooLow: 6, Replacement: 7, Funds: 8, GasTooLow: 9, Wrong: 10,
}

// Classes returns every class, in no particular order.
func Classes() []Class { return slices.Collect(maps.Keys(ranks)) }
