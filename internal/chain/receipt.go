package chain

import "remit/internal/token"

// A Receipt says where a transaction was mined, whether it succeeded, and which
// logs it left.
type Receipt struct {
	Tx        Hash
	Succeeded bool // status 1
	Block     uint64
	BlockHash Hash
	Logs      []Log
}

// A Log is one event that a contract emitted.
type Log struct {
	Contract token.Address
	Topics   []Hash
	Data     []byte
}

// transferTopic is keccak256("Transfer(address,address,uint256)"), EIP-20.
var transferTopic = Hash{
	0xdd, 0xf2, 0x52, 0xad, 0x1b, 0xe2, 0xc8, 0x9b, 0x69, 0xc2, 0xb0, 0x68, 0xfc, 0x37, 0x8d, 0xaa,
	0x95, 0x2b, 0xa7, 0xf1, 0x63, 0xc4, 0xa1, 0x16, 0x28, 0xf5, 0x5a, 0x4d, 0xf5, 0x23, 0xb3, 0xef,
}

// A Transfer is the token transfer that a payment promises.
type Transfer struct {
	Contract token.Address
	From, To token.Address
	Amount   token.Amount
}

// A Verdict is the meaning of a receipt for the transfer that it was to make.
type Verdict string

// The verdicts. They mean something only once the receipt's block is final.
const (
	Transferred Verdict = "transferred"        // the money has moved
	Reverted    Verdict = "execution_reverted" // mined with status 0: nothing moved
	Missing     Verdict = "transfer_missing"   // mined with status 1 but no matching Transfer log
)

// Judge returns the verdict on r. Status 1 alone proves nothing: a token may
// return false instead of reverting (EIP-20 allows both).
func (t Transfer) Judge(r Receipt) Verdict {
	if !r.Succeeded {
		return Reverted
	}
	for _, log := range r.Logs {
		if t.matches(log) {
			return Transferred
		}
	}
	return Missing
}

func (t Transfer) matches(log Log) bool {
	return log.Contract == t.Contract && len(log.Topics) == 3 && log.Topics[0] == transferTopic &&
		log.Topics[1] == addressTopic(t.From) && log.Topics[2] == addressTopic(t.To) &&
		len(log.Data) == 32 && [32]byte(log.Data) == t.Amount.Bytes32()
}

func addressTopic(a token.Address) Hash {
	var h Hash
	copy(h[12:], a[:])
	return h
}
