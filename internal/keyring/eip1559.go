package keyring

import (
	"encoding/binary"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
	"golang.org/x/crypto/sha3"

	"remit/internal/chain"
)

// typeEIP1559 is the first byte of an EIP-1559 transaction, by EIP-2718.
const typeEIP1559 = 0x02

// sign returns the signed bytes of tx at nonce:
//
//	0x02 || rlp([chain_id, nonce, tip, cap, gas, to, value, data, access_list, y_parity, r, s])
//
// where the signature is of keccak256 over the same without its last three
// items. The curve is the one go-ethereum uses when it is built without cgo, and
// the encoding is written out here, because go-ethereum's own takes half a
// megabyte of the binary for transactions with blobs. Tests hold both against
// go-ethereum's.
func sign(key *secp256k1.PrivateKey, tx chain.Tx, nonce uint64) []byte {
	tip, feeCap := tx.Fees.Tip.Bytes32(), tx.Fees.Cap.Bytes32()
	items := integer(nil, word(tx.ChainID))
	items = integer(items, word(nonce))
	items = integer(items, tip[:])
	items = integer(items, feeCap[:])
	items = integer(items, word(tx.Gas))
	items = text(items, tx.To[:])
	items = integer(items, nil) // no ether
	items = text(items, tx.Data)
	items = append(items, emptyList) // no access list

	hash := keccak(transaction(items))
	signature := ecdsa.SignCompact(key, hash[:], false) // 27 + y parity, r, s
	items = integer(items, []byte{signature[0] - 27})
	items = integer(items, signature[1:33])
	items = integer(items, signature[33:])
	return transaction(items)
}

// transaction returns a transaction of encoded items.
func transaction(items []byte) []byte {
	raw := length([]byte{typeEIP1559}, emptyList, len(items))
	return append(raw, items...)
}

// First bytes of RLP's empty string and empty list (Ethereum yellow paper,
// appendix B). Longer ones begin with these plus their length.
const (
	emptyString = 0x80
	emptyList   = 0xc0
)

// text appends a string in RLP.
func text(to, b []byte) []byte {
	if len(b) == 1 && b[0] < emptyString {
		return append(to, b[0])
	}
	return append(length(to, emptyString, len(b)), b...)
}

// integer appends a big-endian number in RLP: a string without leading zeros.
func integer(to, b []byte) []byte {
	for len(b) > 0 && b[0] == 0 {
		b = b[1:]
	}
	return text(to, b)
}

// length appends the header of a string or list of n bytes.
func length(to []byte, empty byte, n int) []byte {
	if n <= 55 {
		return append(to, empty+byte(n))
	}
	size := word(uint64(n))
	for size[0] == 0 {
		size = size[1:]
	}
	return append(append(to, empty+55+byte(len(size))), size...)
}

func word(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// keccak returns the hash that Ethereum uses everywhere: SHA-3 as it was before
// NIST changed its padding.
func keccak(b []byte) (hash chain.Hash) {
	state := sha3.NewLegacyKeccak256()
	state.Write(b)
	state.Sum(hash[:0])
	return hash
}
