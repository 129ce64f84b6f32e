package keyring

import (
	"fmt"
	"math/big"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"

	"remit/internal/chain"
)

// sign returns tx at nonce as a signed transaction of type 2 (EIP-1559). The
// curve is the one that go-ethereum uses when it is built without cgo, as the
// functions are: called directly, it signs in every build.
func sign(key *secp256k1.PrivateKey, tx chain.Tx, nonce uint64) (chain.Signed, error) {
	tip, feeCap := tx.Fees.Tip.Bytes32(), tx.Fees.Cap.Bytes32()
	to, signer := common.Address(tx.To), types.NewLondonSigner(new(big.Int).SetUint64(tx.ChainID))
	unsigned := types.NewTx(&types.DynamicFeeTx{
		ChainID:   signer.ChainID(),
		Nonce:     nonce,
		GasTipCap: new(big.Int).SetBytes(tip[:]),
		GasFeeCap: new(big.Int).SetBytes(feeCap[:]),
		Gas:       tx.Gas,
		To:        &to,
		Value:     new(big.Int),
		Data:      tx.Data,
	})
	compact := ecdsa.SignCompact(key, signer.Hash(unsigned).Bytes(), false) // 27 + y parity, r, s
	signed, err := unsigned.WithSignature(signer, append(compact[1:], compact[0]-27))
	if err != nil {
		return chain.Signed{}, fmt.Errorf("attaching a signature: %w", err)
	}
	raw, err := signed.MarshalBinary()
	if err != nil {
		return chain.Signed{}, fmt.Errorf("encoding a transaction: %w", err)
	}
	return chain.Signed{Nonce: nonce, Hash: chain.Hash(signed.Hash()), Raw: raw}, nil
}
