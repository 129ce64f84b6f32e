// Package faucet gives accounts ether and test tokens on a running devnet, over its
// JSON-RPC: the devnet may be in another process. It signs with the key of the test
// token's owner, which follows from the devnet's default seed and is public, and
// refuses every other chain.
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

	"remit/internal/token"
)

// ErrChain reports a node that is not of a devnet with the default seed and chain id.
var ErrChain = errors.New("this is no chain of remit local, remit chain or make stage: a faucet is for these alone")

// A Faucet is the owner of the test token of one devnet.
type Faucet struct {
	node     *ethclient.Client
	key      *ecdsa.PrivateKey
	owner    common.Address
	contract common.Address
}

// Open returns the faucet of the devnet at that URL, or ErrChain. Close ends it.
func Open(ctx context.Context, url string) (*Faucet, error) {
	key, err := crypto.ToECDSA(crypto.Keccak256([]byte(seed + "/owner")))
	if err != nil {
		return nil, err
	}
	node, err := ethclient.DialContext(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("opening the node: %w", err)
	}
	f := &Faucet{node: node, key: key, owner: crypto.PubkeyToAddress(key.PublicKey)}
	f.contract = crypto.CreateAddress(f.owner, 0)
	id, idErr := node.ChainID(ctx)
	code, codeErr := node.CodeAt(ctx, f.contract, nil)
	if err = errors.Join(idErr, codeErr); err != nil {
		err = fmt.Errorf("asking the node: %w", err)
	} else if id.Uint64() != chainID || len(code) == 0 {
		err = fmt.Errorf("chain %d at %s: %w", id, url, ErrChain)
	}
	if err != nil {
		node.Close()
		return nil, err
	}
	return f, nil
}

// Close ends the connection to the node.
func (f *Faucet) Close() { f.node.Close() }

// Give mints tokens, in smallest units, to an account, sends it wei, and returns
// when both are mined or ctx ends. An error between the two leaves the tokens given.
func (f *Faucet) Give(ctx context.Context, to token.Address, tokens, wei token.Amount) error {
	amount := tokens.Bytes32()
	mint := append(crypto.Keccak256([]byte("mint(address,uint256)"))[:4], common.LeftPadBytes(to[:], 32)...)
	if !tokens.IsZero() {
		if err := f.call(ctx, f.contract, new(big.Int), append(mint, amount[:]...)); err != nil {
			return fmt.Errorf("minting tokens for %s: %w", to, err)
		}
	}
	if !wei.IsZero() {
		value := wei.Bytes32()
		if err := f.call(ctx, common.Address(to), new(big.Int).SetBytes(value[:]), nil); err != nil {
			return fmt.Errorf("sending ether to %s: %w", to, err)
		}
	}
	return nil
}

// call makes a transaction of the owner and waits until it is mined.
func (f *Faucet) call(ctx context.Context, to common.Address, value *big.Int, data []byte) error {
	const gas, tip = 150_000, 1_000_000_000
	nonce, err := f.node.PendingNonceAt(ctx, f.owner)
	if err != nil {
		return err
	}
	head, err := f.node.HeaderByNumber(ctx, nil)
	if err != nil {
		return err
	}
	limit := new(big.Int).Mul(head.BaseFee, big.NewInt(10)) // the owner has ether enough
	tx, err := types.SignNewTx(f.key, types.LatestSignerForChainID(big.NewInt(chainID)), &types.DynamicFeeTx{
		ChainID: big.NewInt(chainID), Nonce: nonce, To: &to, Value: value, Data: data,
		Gas: gas, GasTipCap: big.NewInt(tip), GasFeeCap: limit.Add(limit, big.NewInt(tip)),
	})
	if err != nil {
		return err
	}
	if err := f.node.SendTransaction(ctx, tx); err != nil {
		return err
	}
	for tick := time.NewTicker(100 * time.Millisecond); ; {
		receipt, err := f.node.TransactionReceipt(ctx, tx.Hash())
		switch {
		case err == nil && receipt.Status != types.ReceiptStatusSuccessful:
			return fmt.Errorf("%s was mined and failed", tx.Hash())
		case err == nil:
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s may be mined later: %w", tx.Hash(), ctx.Err())
		case <-tick.C:
		}
	}
}
