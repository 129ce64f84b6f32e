package fakechain

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/disburser"
	"github.com/remit-payouts/remit/internal/evm/token"
)

// A Tx is a signed transaction of the fake chain. A key in memory gives a content and
// a nonce one signed form; the signatures of others have a Salt, which is never the
// same.
type Tx struct {
	chain.Tx
	From  token.Address
	Nonce uint64
	Salt  uint64
}

// A head is all that a signed transaction has before its call data.
type head struct {
	From, To            token.Address
	ChainID, Nonce, Gas uint64
	Salt                uint64
	Value, Tip, Cap     [32]byte
}

// Sign returns the bytes of tx and their hash.
func (tx Tx) Sign() chain.Signed {
	h := head{tx.From, tx.To, tx.ChainID, tx.Nonce, tx.Gas, tx.Salt, tx.Value.Bytes32(), tx.Fees.Tip.Bytes32(), tx.Fees.Cap.Bytes32()}
	raw, _ := binary.Append(nil, binary.BigEndian, h) // its fields have fixed sizes
	raw = append(raw, tx.Data...)
	return chain.Signed{Nonce: tx.Nonce, Hash: sha256.Sum256(raw), Raw: raw}
}

// Decode reads the bytes that Sign writes. It reports false for bytes that are
// too short.
func Decode(raw []byte) (tx Tx, ok bool) {
	var h head
	n, err := binary.Decode(raw, binary.BigEndian, &h)
	if err != nil {
		return tx, false
	}
	tx = Tx{From: h.From, Nonce: h.Nonce, Salt: h.Salt, Tx: chain.Tx{ChainID: h.ChainID, To: h.To, Gas: h.Gas, Data: raw[n:]}}
	tx.Value, _ = token.AmountFromBytes(h.Value[:])
	tx.Fees.Tip, _ = token.AmountFromBytes(h.Tip[:])
	tx.Fees.Cap, _ = token.AmountFromBytes(h.Cap[:])
	return tx, true
}

// Outputs returns the payments of a call of the token or of Batcher.
func Outputs(tx chain.Tx) []disburser.Entry {
	if tx.To == Batcher {
		_, entries, _, _ := disburser.Parse(tx.Data)
		return entries
	}
	t, _, _ := chain.ParseTransfer(tx.Data)
	return []disburser.Entry{{To: t.To, Amount: t.Amount}}
}
