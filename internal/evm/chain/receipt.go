package chain

import (
	"fmt"
	"slices"

	"github.com/remit-payouts/remit/internal/evm/token"
)

// A Receipt records where a transaction was mined, whether it succeeded, and its logs.
type Receipt struct {
	Tx        Hash
	Succeeded bool // status 1
	Block     uint64
	BlockHash Hash
	GasUsed   uint64        // in units of gas; 0: unknown to the node
	Fee       *token.Amount // wei taken from the sender, with a layer 2's fees; nil: unknown to the node
	Logs      []Log
	Reason    string // the contract's, for people, if it reverted and a node gave it
}

func (r Receipt) String() string {
	status := 0
	if r.Succeeded {
		status = 1
	}
	return fmt.Sprintf("status %d, %d logs, %d gas, block %d %s", status, len(r.Logs), r.GasUsed, r.Block, r.BlockHash)
}

// same reports whether two receipts agree. A log that a receipt repeats under one index counts once; otherwise indices
// do not matter, as nodes may count differently. An unknown use of gas decides nothing.
func (r Receipt) same(o Receipt) bool {
	others := o.distinct()
	for _, l := range r.distinct() {
		i := slices.IndexFunc(others, l.sameEvent)
		if i < 0 {
			return false
		}
		others = slices.Delete(others, i, i+1)
	}
	return len(others) == 0 && r.Succeeded == o.Succeeded && r.Block == o.Block && r.BlockHash == o.BlockHash &&
		(r.GasUsed == o.GasUsed || r.GasUsed == 0 || o.GasUsed == 0)
}

func (r Receipt) distinct() (logs []Log) {
	for _, l := range r.Logs {
		if !slices.ContainsFunc(logs, func(o Log) bool { return l.Index == o.Index && l.sameEvent(o) }) {
			logs = append(logs, l)
		}
	}
	return logs
}

// A Log is one event that a contract emitted.
type Log struct {
	Contract token.Address
	Topics   []Hash
	Data     []byte
	Index    uint64 // in its block, which may have the same event twice under two indices
}

func (l Log) sameEvent(o Log) bool {
	return l.Contract == o.Contract && slices.Equal(l.Topics, o.Topics) && slices.Equal(l.Data, o.Data)
}

// transferTopic is keccak256("Transfer(address,address,uint256)"), EIP-20.
var transferTopic = Hash{
	0xdd, 0xf2, 0x52, 0xad, 0x1b, 0xe2, 0xc8, 0x9b, 0x69, 0xc2, 0xb0, 0x68, 0xfc, 0x37, 0x8d, 0xaa,
	0x95, 0x2b, 0xa7, 0xf1, 0x63, 0xc4, 0xa1, 0x16, 0x28, 0xf5, 0x5a, 0x4d, 0xf5, 0x23, 0xb3, 0xef,
}

// A Transfer is a token transfer that a payment promises or a log records.
type Transfer struct {
	Contract token.Address
	From, To token.Address
	Amount   token.Amount
}

// A Verdict is the meaning of a receipt for a payment.
type Verdict string

// The verdicts. Act on one only when the receipt's block is final.
const (
	Transferred   Verdict = "transferred"        // the amount has moved
	Reverted      Verdict = "execution_reverted" // mined with status 0: nothing moved
	Missing       Verdict = "transfer_missing"   // mined with status 1, without a log of a Transfer from the payer
	AmountDiffers Verdict = "amount_differs"     // mined with status 1; another amount or other payees
	Used          Verdict = "nonce_used"         // a no-op, meant to move nothing
)

// Judge compares r with the transfers that its transaction was meant to make. Equal transfers need
// one log each. Status 1 alone proves nothing: a token may return false instead of reverting
// (EIP-20 allows both), or keep a part of the amount as its fee (USDT on Ethereum can be set to).
func Judge(r Receipt, transfers ...Transfer) Verdict {
	if !r.Succeeded {
		return Reverted
	}
	moved := r.transfers()
	for _, t := range transfers {
		i := slices.Index(moved, t)
		switch {
		case i >= 0:
			moved = slices.Delete(moved, i, i+1)
		case !left(r, t):
			return Missing
		default:
			return AmountDiffers
		}
	}
	return Transferred
}

// left reports whether any of the payer's coins moved, even to others than the payees (Tempo, TIP-1028).
func left(r Receipt, t Transfer) bool {
	return slices.ContainsFunc(r.transfers(), func(moved Transfer) bool {
		return moved.Contract == t.Contract && moved.From == t.From && !moved.Amount.IsZero()
	})
}

// Arrived returns the amount that moved to the payees of transfers, by the logs of r. Each log counts once.
func Arrived(r Receipt, transfers ...Transfer) (sum token.Amount) {
	for _, moved := range r.transfers() {
		if slices.ContainsFunc(transfers, func(t Transfer) bool {
			return t.Contract == moved.Contract && t.From == moved.From && t.To == moved.To
		}) {
			if more, err := sum.Add(moved.Amount); err == nil {
				sum = more
			}
		}
	}
	return sum
}

func (r Receipt) transfers() (all []Transfer) {
	for _, l := range r.distinct() {
		if t, ok := l.Transfer(); ok {
			all = append(all, t)
		}
	}
	return all
}

// Transfer returns the transfer that l records, or false.
func (l Log) Transfer() (Transfer, bool) {
	if len(l.Topics) != 3 || l.Topics[0] != transferTopic || len(l.Data) != 32 {
		return Transfer{}, false
	}
	from, to := token.Address(l.Topics[1][12:]), token.Address(l.Topics[2][12:])
	amount, err := token.AmountFromBytes(l.Data)
	return Transfer{l.Contract, from, to, amount}, err == nil && addressTopic(from) == l.Topics[1] && addressTopic(to) == l.Topics[2]
}

// TransferTopics returns the topics of transfers out of wallets, for eth_getLogs.
func TransferTopics(wallets []token.Address) [][]Hash {
	out := make([]Hash, len(wallets))
	for i, w := range wallets {
		out[i] = addressTopic(w)
	}
	return [][]Hash{{transferTopic}, out}
}

func addressTopic(a token.Address) Hash {
	var h Hash
	copy(h[12:], a[:])
	return h
}
