// Package disburser knows the contract that pays many recipients in one transaction:
// its code, its address, its calls and its refusals. It knows neither nodes nor
// payments. The contract itself is contracts/Disburser.sol.
package disburser

import (
	"bytes"
	_ "embed" // contracts/Disburser.json
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"strings"

	"github.com/ethereum/go-ethereum/crypto/keccak"

	"github.com/remit-payouts/remit/internal/evm/token"
)

//go:embed contracts/Disburser.json
var artifact []byte // made from contracts/Disburser.sol by tools/contract

// An Entry is one output of a batch.
type Entry struct {
	To     token.Address
	Amount token.Amount // in the token's smallest unit, at most MaxAmount
}

// MaxAmount returns 2^96-1, the largest amount of an entry: it shares a word with the
// recipient's address.
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

// Calldata returns the call that moves each entry's amount of coin out of the caller,
// in order, all or none. id, which may be nil, follows the arguments and has no effect.
// It panics if an entry's amount is over MaxAmount.
func Calldata(coin token.Address, entries []Entry, id []byte) []byte {
	data := make([]byte, header, header+word*len(entries)+len(id))
	copy(data, selector("pay(address,bytes32[])"))
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

// Approval returns the call of a token by which its caller lets a contract take an amount
// in all, from now on.
func Approval(contract token.Address, amount token.Amount) []byte {
	data, units := make([]byte, 4+word, 4+word*2), amount.Bytes32()
	copy(data, selector("approve(address,uint256)"))
	copy(data[4+word-20:], contract[:])
	return append(data, units[:]...)
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
	if len(reverted) < refuse || !bytes.HasPrefix(reverted, selector("Refused(uint256,bytes)")) {
		return 0, false
	}
	index, err := token.AmountFromBytes(reverted[4 : 4+word])
	n, small := index.Uint64()
	return int(n), err == nil && small && n <= math.MaxInt32
}

// Deployer is the contract that creates contracts at addresses that follow from their
// code alone, at the same address on every chain:
// https://github.com/Arachnid/deterministic-deployment-proxy.
func Deployer() token.Address {
	return token.Address(unhex("4e59b44847b379578588920ca78fbf26c0b4956c"))
}

// DeployerCode returns the runtime code of the Deployer (its README, "Deployment").
func DeployerCode() []byte {
	return unhex("7fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffe0" +
		"3601600081602082378035828234f58015156039578182fd5b8082525050506014600cf3")
}

// Deployment returns the call data with which the Deployer makes the contract: a salt
// of zero, and the code that returns the contract's.
func Deployment() []byte { return append(make([]byte, word), compiled().init...) }

// Address returns where the Deployer makes the contract, on every chain (EIP-1014).
func Address() token.Address {
	deployer := Deployer()
	sum := digest([]byte{0xff}, deployer[:], make([]byte, word), digest(compiled().init))
	return token.Address(sum[word-20:])
}

// Code returns the contract's runtime code, as eth_getCode returns it.
func Code() []byte { return compiled().code }

type contract struct{ init, code []byte }

func compiled() contract {
	var text struct{ Bytecode, DeployedBytecode string }
	if err := json.Unmarshal(artifact, &text); err != nil {
		panic(err) // the artifact is part of the program
	}
	return contract{unhex(text.Bytecode), unhex(text.DeployedBytecode)}
}

func unhex(text string) []byte {
	b, err := hex.DecodeString(strings.TrimPrefix(text, "0x"))
	if err != nil {
		panic(err) // a constant, or the artifact
	}
	return b
}

// selector returns the first four bytes of the hash of a signature (ABI specification).
func selector(signature string) []byte { return digest([]byte(signature))[:4] }

func digest(parts ...[]byte) []byte {
	h := keccak.NewLegacyKeccak256()
	for _, p := range parts {
		h.Write(p)
	}
	return h.Sum(nil)
}
