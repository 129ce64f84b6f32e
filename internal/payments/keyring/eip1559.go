package keyring

import (
	"errors"
	"fmt"
	"math/big"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"

	"github.com/remit-payouts/remit/internal/evm/chain"
)

const typeEIP1559 = 0x02

// sign returns the form of tx at nonce that by has signed, by EIP-1559:
//
//	0x02 || rlp([chain_id, nonce, tip, cap, gas, to, value, data, access_list, y_parity, r, s])
//
// The signature covers keccak256 of the same list without its last three items. The curve is the
// implementation that go-ethereum uses when built without cgo. The list is written out because
// go-ethereum's core/types, for its transactions with blobs, takes the functions over the targets
// of docs/performance.md; a test compares every signed form with core/types.
//
// by signs a digest and returns 27 plus the parity of y, then r, then s.
func sign(tx chain.Tx, nonce uint64, by func(digest []byte) ([]byte, error)) (chain.Signed, error) {
	switch {
	case tx.ChainID == 0:
		return chain.Signed{}, errors.New("transaction cannot be signed: no chain id")
	case nonce == 1<<64-1:
		return chain.Signed{}, errors.New("transaction cannot be signed: nonce beyond 2^64-2")
	case tx.Gas < chain.NoopGas:
		return chain.Signed{}, fmt.Errorf("transaction cannot be signed: gas limit %d is below %d", tx.Gas, chain.NoopGas)
	case tx.Fees.Cap.Less(tx.Fees.Tip):
		return chain.Signed{}, fmt.Errorf("transaction cannot be signed: tip %v is above %v", tx.Fees.Tip, tx.Fees.Cap)
	}
	items := []any{
		tx.ChainID, nonce, tx.Fees.Tip.Big(), tx.Fees.Cap.Big(), tx.Gas, tx.To[:], tx.Value.Big(), tx.Data,
		[]any{}, // no access list
	}
	unsigned, err := encode(items)
	if err != nil {
		return chain.Signed{}, err
	}
	signature, err := by(crypto.Keccak256(unsigned))
	if err != nil {
		return chain.Signed{}, err
	}
	raw, err := encode(append(items, signature[0]-27, new(big.Int).SetBytes(signature[1:33]), new(big.Int).SetBytes(signature[33:])))
	if err != nil {
		return chain.Signed{}, err
	}
	return chain.Signed{Nonce: nonce, Hash: chain.Hash(crypto.Keccak256(raw)), Raw: raw}, nil
}

func encode(items []any) ([]byte, error) {
	list, err := rlp.EncodeToBytes(items)
	return append([]byte{typeEIP1559}, list...), err
}
