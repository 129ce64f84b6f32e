// Package disburser knows the contract that pays many recipients in one transaction: its code, its calls and its
// refusals. It knows neither nodes nor payments. The contract itself is contracts/Disburser.sol.
package disburser

import (
	"bytes"
	_ "embed" // contracts/Disburser.json
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"strings"

	"github.com/remit-payouts/remit/internal/evm/token"
)

//go:embed contracts/Disburser.json
var artifact []byte // made from contracts/Disburser.sol by tools/contract

// An Entry is one output of a batch.
type Entry struct {
	To     token.Address
	Amount token.Amount // in the token's smallest unit, at most MaxAmount
}

// MaxAmount returns 2^96-1, the largest amount of an entry: it shares a word with the recipient's address.
func MaxAmount() token.Amount {
	limit, err := token.AmountFromBytes(bytes.Repeat([]byte{0xff}, 12))
	if err != nil {
		panic(err) // 12 bytes fit
	}
	return limit
}

// Sizes of the call's parts, in bytes.
const (
	word   = 32                // of an argument and of an entry (ABI specification)
	header = 4 + word*3        // selector, token, offset of the entries, their number
	amount = word - 20         // an entry's amount follows its address
	refuse = 4 + word + word*2 // the least of Refused: selector, index, offset and size of the answer
)

// Calldata returns the call that moves each entry's amount of coin out of the caller, in order, all or none. id,
// which may be nil, follows the arguments and has no effect. It panics if an entry's amount is over MaxAmount.
func Calldata(coin token.Address, entries []Entry, id []byte) []byte {
	data := make([]byte, header, header+word*len(entries)+len(id))
	copy(data, token.Selector("pay(address,bytes32[])"))
	copy(data[4+word-20:], coin[:])
	data[4+word*2-1] = word * 2 // where the entries begin, after the two arguments
	binary.BigEndian.PutUint64(data[header-8:], uint64(len(entries)))
	for _, e := range entries {
		units := e.Amount.Bytes32()
		if MaxAmount().Less(e.Amount) {
			panic("disburser: an amount over 2^96-1")
		}
		data = append(append(data, e.To[:]...), units[word-amount:]...)
	}
	return append(data, id...)
}

// Parse reads a call that Calldata made. rest follows its arguments. It reports false
// for all other data, a call that the contract would take in another form included.
func Parse(data []byte) (coin token.Address, entries []Entry, rest []byte, ok bool) {
	if len(data) < header {
		return coin, nil, nil, false
	}
	copy(coin[:], data[4+word-20:])
	size := binary.BigEndian.Uint64(data[header-8:])
	if size > uint64(len(data)-header)/word {
		return coin, nil, nil, false
	}
	rest = data[header:]
	for range size {
		var e Entry
		copy(e.To[:], rest)
		units, err := token.AmountFromBytes(rest[word-amount : word])
		if err != nil {
			return coin, nil, nil, false
		}
		e.Amount, rest = units, rest[word:]
		entries = append(entries, e)
	}
	return coin, entries, rest, bytes.HasPrefix(data, Calldata(coin, entries, nil))
}

// Index returns the place, from 0, of the entry that the token refused, from the data of a call
// reverted with. It reports false for any other reason.
func Index(reverted []byte) (int, bool) {
	if len(reverted) < refuse || !bytes.HasPrefix(reverted, token.Selector("Refused(uint256,bytes)")) {
		return 0, false
	}
	index, err := token.AmountFromBytes(reverted[4 : 4+word])
	n, small := index.Uint64()
	return int(n), err == nil && small && n <= math.MaxInt32
}

// InitCode returns the code that returns the contract's, for the transaction that makes it.
func InitCode() []byte { return compiled().Bytecode }

// Code returns the contract's runtime code, as eth_getCode returns it.
func Code() []byte { return compiled().DeployedBytecode }

func compiled() (c struct{ Bytecode, DeployedBytecode code }) {
	if err := json.Unmarshal(artifact, &c); err != nil {
		panic(err) // the artifact is part of the program
	}
	return c
}

// code is written as 0x and hex digits.
type code []byte

func (c *code) UnmarshalText(text []byte) (err error) {
	*c, err = hex.DecodeString(strings.TrimPrefix(string(text), "0x"))
	return err
}
