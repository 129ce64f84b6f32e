package fakechain

import (
	"crypto/sha256"
	"encoding/binary"

	"remit/internal/chain"
	"remit/internal/token"
)

// A Tx is a signed transaction of the fake chain. Like a transaction of a real
// chain it has exactly one signed form for a wallet, a content and a nonce.
type Tx struct {
	chain.Tx
	From  token.Address
	Nonce uint64
}

// headLength is the length of the bytes that Sign writes before the call data.
const headLength = 2*20 + 3*8 + 2*32

// Sign returns the bytes of tx and their hash.
func (tx Tx) Sign() chain.Signed {
	raw := make([]byte, 0, headLength+len(tx.Data))
	raw = append(raw, tx.From[:]...)
	raw = append(raw, tx.To[:]...)
	for _, n := range []uint64{tx.ChainID, tx.Nonce, tx.Gas} {
		raw = binary.BigEndian.AppendUint64(raw, n)
	}
	for _, fee := range []token.Amount{tx.Fees.Tip, tx.Fees.Cap} {
		word := fee.Bytes32()
		raw = append(raw, word[:]...)
	}
	raw = append(raw, tx.Data...)
	return chain.Signed{Nonce: tx.Nonce, Hash: sha256.Sum256(raw), Raw: raw}
}

// Decode reads the bytes that Sign writes. It reports false for bytes that are
// too short.
func Decode(raw []byte) (tx Tx, ok bool) {
	if len(raw) < headLength {
		return tx, false
	}
	copy(tx.From[:], raw)
	copy(tx.To[:], raw[20:])
	tx.ChainID = binary.BigEndian.Uint64(raw[40:])
	tx.Nonce = binary.BigEndian.Uint64(raw[48:])
	tx.Gas = binary.BigEndian.Uint64(raw[56:])
	tx.Fees.Tip, _ = token.AmountFromBytes(raw[64:96])
	tx.Fees.Cap, _ = token.AmountFromBytes(raw[96:128])
	tx.Data = raw[headLength:]
	return tx, true
}

// ParseTransfer reads the call data of transfer(address,uint256).
func ParseTransfer(data []byte) (to token.Address, amount token.Amount) {
	copy(to[:], data[16:36])
	amount, _ = token.AmountFromBytes(data[36:68])
	return to, amount
}
