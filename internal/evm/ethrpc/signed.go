package ethrpc

import (
	"encoding/json"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"

	"github.com/remit-payouts/remit/internal/evm/token"
)

// A signature has the fields of a transaction that only its signature needs.
type signature struct {
	Type   *count            `json:"type"`
	Tip    *quantity         `json:"maxPriorityFeePerGas"`
	Cap    *quantity         `json:"maxFeePerGas"`
	Gas    *count            `json:"gas"`
	Access []json.RawMessage `json:"accessList"`
	Parity *count            `json:"v"`
	R      *quantity         `json:"r"`
	S      *quantity         `json:"s"`
}

// UnmarshalJSON reads a transaction. A signature that cannot be read is none.
func (t *minedTx) UnmarshalJSON(b []byte) error {
	if json.Unmarshal(b, &t.signature) != nil {
		t.signature = signature{}
	}
	type plain minedTx
	return json.Unmarshal(b, (*plain)(t))
}

// signed reports whether the sender's key has signed the transaction for a chain, so that no node can have invented
// it. It knows EIP-1559 transactions without an access list only, as Remit signs them: of any other it reports false.
func (t minedTx) signed(chainID uint64) bool {
	if t.Type == nil || *t.Type != 2 || len(t.Access) > 0 || t.To == nil || t.Tip == nil || t.Cap == nil || t.Gas == nil ||
		t.Parity == nil || *t.Parity > 1 || t.R == nil || t.S == nil {
		return false
	}
	list, err := rlp.EncodeToBytes([]any{chainID, uint64(t.Nonce), t.Tip.Big(), t.Cap.Big(), uint64(*t.Gas), t.To[:],
		t.Value.Big(), []byte(t.Data), []any{}})
	if err != nil {
		return false
	}
	r, s := t.R.Bytes32(), t.S.Bytes32()
	key, err := crypto.Ecrecover(crypto.Keccak256([]byte{2}, list), append(append(r[:], s[:]...), byte(*t.Parity)))
	return err == nil && token.Address(crypto.Keccak256(key[1:])[12:]) == token.Address(t.From)
}
