package chain

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/remit-payouts/remit/internal/evm/token"
)

// Errors of a Node. Any other error means that the node gave no usable answer: conclude nothing from it.
var (
	ErrReverted    = errors.New("execution reverted") // a simulated call that the contract refused
	ErrTooLarge    = errors.New("call needs more gas than a transaction may have")
	ErrCode        = errors.New("the batch contract is not there") // without code, every call succeeds and pays nobody
	ErrListed      = errors.New("recipient is on the sanctions list")
	ErrRejected    = errors.New("node rejected") // a query that a working node answered with an error
	ErrUnavailable = errors.New("no node answered")
	ErrWrongChain  = errors.New("node serves another chain")
)

// A Call is a contract call to simulate.
type Call struct {
	From, To token.Address
	Value    token.Amount // wei
	Data     []byte
	Batch    bool // To must have the batch contract's code, else ErrCode; see Node.Estimate
	ByCall   bool // simulate a transfer's result too: if the token returns false, the error is ErrReverted
	// Within replaces the estimate of a ByCall transfer by one execution with this much gas; zero: estimate.
	Within uint64
	// At, if not zero, is the block in which the call's transaction was mined and reverted: the answer is a RevertError
	// with the reason, or nothing. Fees are the transaction's.
	At   uint64
	Fees Fees
	Screening
}

// A Screening queries a list contract for recipients: isSanctioned(address), as Chainalysis deploys
// it on many chains. The zero Screening queries nothing.
type Screening struct {
	List       token.Address
	Recipients []token.Address
}

// An EntryError is an error about one of several recipients.
type EntryError struct {
	Index int // from 0
	Err   error
}

func (e *EntryError) Error() string { return fmt.Sprintf("entry %d: %v", e.Index, e.Err) }

func (e *EntryError) Unwrap() error { return e.Err }

// A Market is the price of gas in a block, in wei per gas, with the chain's charges besides gas.
type Market struct {
	BaseFee token.Amount // of the next block
	Tip     token.Amount // suggested by the node
	L1Fee   token.Amount // wei of a transfer for its data on L1 and for the chain's operator; zero: only gas is paid
}

// A Head describes the end of one node's chain.
type Head struct {
	Number uint64 // of the latest block
	Final  uint64 // of the highest block that the confirmation rule calls final
}

// An Account is a wallet's account on one node at one block.
type Account struct {
	Head
	Mined   uint64 // the wallet's transactions in blocks up to the head: its next nonce on the chain
	Pending uint64 // the same, including the node's pool now
	Balance token.Amount
	Gas     token.Amount // wei of ether, or of the token where it is the gas (18 decimals); zero if nodes give none
}

// A Node is one configured JSON-RPC endpoint. ethrpc.Node is the real one. Most methods are one HTTP request.
// TxAtNonce, Transfers, Transactions, Estimate and long lists may take more. Each method may be repeated.
type Node interface {
	// String names the node in logs: its host, never its path, which may hold a provider's key.
	String() string

	// Fees returns the price of gas in the next block.
	Fees(ctx context.Context) (Market, error)

	// Estimate simulates the call and returns the gas it needs, or ErrReverted. For a batch the error is an EntryError
	// if the node gives the contract's reason.
	//
	// With a Screening, it returns ErrListed in an EntryError even if the call would fail, and another error if the
	// list contract gives no clear answer. A transfer's gas also covers recipients who spend all before it
	// (Call.ToNewHolders). A Batch is always ErrCode unless its address has the code of package disburser, and
	// ErrTooLarge unless it Fits the latest block. If a call passes with the gas Within, it returns Within; any other
	// call is estimated.
	Estimate(ctx context.Context, call Call) (gas uint64, err error)

	// Head returns the end of the node's chain now.
	Head(ctx context.Context, rule ConfirmationRule) (Head, error)

	// Account reads a wallet's count and balances at the block of head, which must be this node's, even if the node
	// answers the calls of one request in any order. Pending is of its pool now. With the zero Head, each number is of
	// the block that is the latest when it is read.
	Account(ctx context.Context, wallet, coin token.Address, head Head) (Account, error)

	// Count returns how many transactions of a wallet are in blocks up to the given one.
	Count(ctx context.Context, wallet token.Address, block uint64) (uint64, error)

	// Receipts returns the node's receipts of hashes, in no particular order. An absent receipt
	// proves nothing. With an error come the receipts read before it.
	Receipts(ctx context.Context, hashes []Hash) ([]Receipt, error)

	// BlockHashes returns the hash of each block on the node's canonical chain, or zero if it has
	// none. With an error, zero also means unknown, and the slice may be empty.
	BlockHashes(ctx context.Context, numbers []uint64) ([]Hash, error)

	// BlockTime returns the time of a block on the node's canonical chain, in UTC. It must have the block.
	BlockTime(ctx context.Context, number uint64) (time.Time, error)

	// TxAtNonce returns the hash of the transaction with which wallet used nonce, in blocks up to
	// the block number final. It reads the block itself: the receipt index may lag. It returns the
	// zero Hash if the nonce is unused by then, and an error if the node does not know.
	TxAtNonce(ctx context.Context, wallet token.Address, nonce, final uint64) (Hash, error)

	// Transfers returns the transfers of a token out of wallets in the blocks from first to last, in the order of the
	// chain. It leaves out transfers of 0 units: anyone can have them logged for any wallet. All of these blocks must
	// exist. With an error it returns none.
	Transfers(ctx context.Context, coin token.Address, wallets []token.Address, first, last uint64) ([]LoggedTransfer, error)

	// Transactions returns the mined transactions that the node has of hashes, in their order. An
	// absent transaction proves nothing. With an error it returns none.
	Transactions(ctx context.Context, hashes []Hash) ([]MinedTx, error)

	// Send hands signed bytes to the node's pool and returns its Reply, which is Ambiguous if no answer comes.
	Send(ctx context.Context, raw []byte) Reply
}

// A Reply is a node's answer to eth_sendRawTransaction.
type Reply struct {
	Class  Class
	Most   Class  // that more than half of three or more nodes gave; empty: none
	Detail string // the node's own words, for logs only
	// Unasked reports that nothing was sent (ErrBusy).
	Unasked bool
}

// A Class is the meaning of a reply for the transaction.
type Class string

// The classes. In each the transaction stays stored and is sent again until its nonce is mined.
const (
	Accepted    Class = "accepted"      // in the pool of this node
	Known       Class = "already_known" // it was there already
	Full        Class = "pool_full"     // send the same bytes later
	FeeTooLow   Class = "fee_too_low"   // send the same bytes later, or bump
	GasTooLow   Class = "gas_too_low"   // raise the gas limit: it does not cover the charges before the call runs
	Gap         Class = "nonce_gap"     // predecessors are missing: deliver them, then send again
	NonceTooLow Class = "nonce_too_low" // this or another transaction with the nonce is mined: query receipts
	Replacement Class = "replacement"   // another transaction holds the nonce in the pool: never success
	Funds       Class = "funds"         // the wallet cannot pay for it now
	Ambiguous   Class = "ambiguous"     // maybe accepted: send the same bytes, for ever
	Wrong       Class = "wrong"         // no node will ever take these bytes
)

// Held reports whether the transaction is in the node's pool.
func (c Class) Held() bool { return c == Accepted || c == Known }

// Classes returns every class, best first. The best reply counts: the network can mine bytes that one node holds.
func Classes() []Class {
	return []Class{Accepted, Known, NonceTooLow, Ambiguous, Gap, Full, FeeTooLow, Replacement, Funds, GasTooLow, Wrong}
}
