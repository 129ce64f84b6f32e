package devnet

import (
	"context"
	_ "embed" // contracts/TestToken.json
	"encoding/json"
	"errors"
	"fmt"
	"math/big"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"

	"github.com/remit-payouts/remit/internal/evm/disburser/install"
	"github.com/remit-payouts/remit/internal/evm/token"
)

//go:embed contracts/TestToken.json
var artifact []byte // made from contracts/TestToken.sol by tools/contract

// A Behaviour is the effect of a transfer to a recipient in place of an ordinary
// transfer's. The numbers are those of the contract.
type Behaviour uint8

// The behaviours.
const (
	Ordinary        Behaviour = iota // moves the amount, logs it, returns true
	RevertWhenMined                  // reverts only at a gas price, so that estimation passes
	ReturnFalse                      // moves nothing, logs nothing, returns false
)

// Limits and tip of the owner's transactions.
const (
	deployGas = 15_000_000    // gas limit; under the rules of Amsterdam a byte of code costs 1,530
	callGas   = 300_000       // gas limit; under those rules a balance that becomes non-zero costs 97,920
	ownerTip  = 1_000_000_000 // wei per gas
)

// Blacklist makes every transfer from or to an account revert. Like every method
// of the token's owner it makes a block of that one transaction: pending payments
// stay pending.
func (c *Chain) Blacklist(a token.Address) error { return c.own("blacklist", common.Address(a)) }

// Behave gives a recipient a behaviour.
func (c *Chain) Behave(recipient token.Address, b Behaviour) error {
	return c.own("setBehaviour", common.Address(recipient), uint8(b))
}

// TokenBalance returns a's token balance, at the latest block.
func (c *Chain) TokenBalance(ctx context.Context, a token.Address) (token.Amount, error) {
	data, err := c.abi.Pack("balanceOf", common.Address(a))
	if err != nil {
		return token.Amount{}, fmt.Errorf("asking for the tokens of %s: %w", a, err)
	}
	contract := common.Address(c.token.Contract)
	word, err := c.client.CallContract(ctx, ethereum.CallMsg{To: &contract, Data: data}, nil)
	if err != nil {
		return token.Amount{}, fmt.Errorf("asking for the tokens of %s: %w", a, err)
	}
	return token.AmountFromBytes(word)
}

// deploy makes the first block: the token, the contract that pays batches, the wallets'
// balances of the token, their allowances for batches, and the behaviour of
// RevertRecipient. The wallets have sent nothing: their nonces are unused.
func (c *Chain) deploy() error {
	var compiled struct {
		ABI      abi.ABI
		Bytecode hexutil.Bytes
	}
	if err := json.Unmarshal(artifact, &compiled); err != nil {
		return fmt.Errorf("reading the token's artifact: %w", err)
	}
	c.abi = compiled.ABI
	deployer, unlimited := common.Address(install.Deployer()), token.MaxAmount().Bytes32()
	txs := []*types.DynamicFeeTx{{Gas: deployGas, Data: compiled.Bytecode}, {Gas: deployGas, To: &deployer, Data: install.Deployment()}}
	for _, w := range c.wallets {
		mint, err := c.call("mint", common.Address(w.Address), bigInt(walletTokens))
		approve, approveErr := c.call("approveFor", common.Address(w.Address), common.Address(install.Address()),
			new(big.Int).SetBytes(unlimited[:]))
		if err := errors.Join(err, approveErr); err != nil {
			return err
		}
		txs = append(txs, mint, approve)
	}
	behave, err := c.call("setBehaviour", common.Address(RevertRecipient), uint8(RevertWhenMined))
	if err != nil {
		return err
	}
	if err := c.mineFor(c.owner, append(txs, behave)...); err != nil {
		return fmt.Errorf("deploying the token: %w", err)
	}
	block := c.eth.BlockChain().GetBlockByHash(c.eth.BlockChain().CurrentBlock().Hash())
	c.deployed, c.old = block.NumberU64(), block.Transactions()[0]
	return nil
}

// own calls a method of the token as its owner, in a block of its own.
func (c *Chain) own(method string, args ...any) error {
	call, err := c.call(method, args...)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.mineFor(c.owner, call); err != nil {
		return fmt.Errorf("calling the token's %s: %w", method, err)
	}
	return nil
}

func (c *Chain) call(method string, args ...any) (*types.DynamicFeeTx, error) {
	data, err := c.abi.Pack(method, args...)
	if err != nil {
		return nil, fmt.Errorf("encoding a call of the token's %s: %w", method, err)
	}
	contract := common.Address(c.token.Contract)
	return &types.DynamicFeeTx{Gas: callGas, To: &contract, Data: data}, nil
}

// signFor returns the signed transaction at a nonce, with fees filled in.
func (c *Chain) signFor(from Wallet, nonce uint64, tx *types.DynamicFeeTx) (*types.Transaction, error) {
	feeCap := new(big.Int).Mul(c.nextBaseFee(), bigInt(1000)) // never the reason to miss a block
	tx.ChainID, tx.Nonce, tx.Value = bigInt(c.cfg.ChainID), nonce, new(big.Int)
	tx.GasTipCap, tx.GasFeeCap = bigInt(ownerTip), feeCap.Add(feeCap, bigInt(ownerTip))
	return from.sign(c.cfg.ChainID, tx)
}

// mineFor makes one block of exactly these transactions of one account, with
// nonces and fees filled in. The caller holds mu.
func (c *Chain) mineFor(from Wallet, txs ...*types.DynamicFeeTx) error {
	account := common.Address(from.Address)
	// The account's transactions that a reorg has made pending again come first.
	signed, _ := c.eth.TxPool().ContentFrom(account)
	nonce := c.eth.TxPool().PoolNonce(account)
	for i, tx := range txs {
		s, err := c.signFor(from, nonce+uint64(i), tx)
		if err != nil {
			return err
		}
		signed = append(signed, s)
	}
	return c.extend(signed)
}
