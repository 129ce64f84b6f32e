package keyring

import (
	"math/big"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"

	"remit/internal/chain"
	"remit/internal/token"
)

// typeEIP1559 is the first byte of an EIP-1559 transaction, by EIP-2718.
const typeEIP1559 = 0x02

// sign returns the signed form of tx at nonce, by EIP-1559:
//
//	0x02 || rlp([chain_id, nonce, tip, cap, gas, to, value, data, access_list, y_parity, r, s])
//
// The signature is of keccak256 over the same without its last three items. The
// curve is the one that go-ethereum uses when it is built without cgo. The list
// is written out, since go-ethereum's core/types takes the functions over the
// targets of docs/performance.md for transactions with blobs; a test holds every
// signed form against core/types.
func sign(key *secp256k1.PrivateKey, tx chain.Tx, nonce uint64) (chain.Signed, error) {
	items := []any{
		tx.ChainID, nonce, number(tx.Fees.Tip), number(tx.Fees.Cap), tx.Gas, tx.To[:],
		number(tx.Value), tx.Data,
		[]any{}, // no access list
	}
	unsigned, err := encode(items)
	if err != nil {
		return chain.Signed{}, err
	}
	signature := ecdsa.SignCompact(key, crypto.Keccak256(unsigned), false) // 27 + y parity, r, s
	raw, err := encode(append(items, signature[0]-27, new(big.Int).SetBytes(signature[1:33]), new(big.Int).SetBytes(signature[33:])))
	if err != nil {
		return chain.Signed{}, err
	}
	return chain.Signed{Nonce: nonce, Hash: chain.Hash(crypto.Keccak256(raw)), Raw: raw}, nil
}

// encode returns a transaction of these items.
func encode(items []any) ([]byte, error) {
	list, err := rlp.EncodeToBytes(items)
	return append([]byte{typeEIP1559}, list...), err
}

func number(a token.Amount) *big.Int {
	b := a.Bytes32()
	return new(big.Int).SetBytes(b[:])
}
