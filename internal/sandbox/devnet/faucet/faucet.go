// Package faucet gives accounts ether and test tokens on a devnet that may run in
// another process, over its JSON-RPC. It signs as the owner of the test token, whose
// key is public, and refuses every other chain.
package faucet

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethclient"

	"github.com/remit-payouts/remit/internal/evm/token"
)

// ErrChain reports a chain that is no devnet with the default seed and chain id.
var ErrChain = errors.New("this is no chain of remit local, remit chain or make stage: the faucet is for these alone")

// The defaults of devnet.Config.
const (
	seed    = "remit devnet"
	chainID = 1337
)

// Limits of the owner's transactions. The owner has ether enough for any base fee.
const (
	gas  = 150_000
	tip  = 1_000_000_000       // wei per gas
	most = 100_000_000_000_000 // wei per gas
)

// Give mints tokens, in smallest units, to an account on the chain at url, sends it
// wei, and returns when both are mined or ctx ends. Another chain is ErrChain.
// After any other error either may have been given.
func Give(ctx context.Context, url string, to token.Address, tokens, wei token.Amount) error {
	node, err := ethclient.DialContext(ctx, url)
	if err != nil {
		return fmt.Errorf("opening the node: %w", err)
	}
	defer node.Close()
	key, err := crypto.ToECDSA(crypto.Keccak256([]byte(seed + "/owner")))
	if err != nil {
		return err
	}
	owner := crypto.PubkeyToAddress(key.PublicKey)
	contract := crypto.CreateAddress(owner, 0)
	id, idErr := node.ChainID(ctx)
	code, codeErr := node.CodeAt(ctx, contract, nil)
	nonce, nonceErr := node.PendingNonceAt(ctx, owner)
	if err := errors.Join(idErr, codeErr, nonceErr); err != nil {
		return fmt.Errorf("asking the node: %w", err)
	}
	if id.Uint64() != chainID || len(code) == 0 {
		return fmt.Errorf("chain %d at %s: %w", id, url, ErrChain)
	}
	amount, account := tokens.Bytes32(), common.Address(to)
	mint := append(crypto.Keccak256([]byte("mint(address,uint256)"))[:4], common.LeftPadBytes(to[:], 32)...)
	_, err = send(ctx, node, key, &types.DynamicFeeTx{Nonce: nonce, To: &contract, Data: append(mint, amount[:]...)})
	if err != nil {
		return fmt.Errorf("minting tokens: %w", err)
	}
	value := wei.Bytes32()
	last, err := send(ctx, node, key, &types.DynamicFeeTx{Nonce: nonce + 1, To: &account, Value: new(big.Int).SetBytes(value[:])})
	if err != nil {
		return fmt.Errorf("sending ether: %w", err)
	}
	for tick := time.NewTicker(100 * time.Millisecond); ; { // the last is mined after the first
		if receipt, err := node.TransactionReceipt(ctx, last); err == nil && receipt.Status == types.ReceiptStatusSuccessful {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", last, ctx.Err())
		case <-tick.C:
		}
	}
}

func send(ctx context.Context, node *ethclient.Client, key *ecdsa.PrivateKey, tx *types.DynamicFeeTx) (common.Hash, error) {
	tx.ChainID, tx.Gas, tx.GasTipCap, tx.GasFeeCap = big.NewInt(chainID), gas, big.NewInt(tip), big.NewInt(most)
	signed, err := types.SignNewTx(key, types.LatestSignerForChainID(tx.ChainID), tx)
	if err != nil {
		return common.Hash{}, err
	}
	return signed.Hash(), node.SendTransaction(ctx, signed)
}
