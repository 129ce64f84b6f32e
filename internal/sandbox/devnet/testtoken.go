package devnet

import (
	"bytes"
	"context"
	_ "embed" // contracts/TestToken.json
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethclient"

	"github.com/remit-payouts/remit/internal/evm/disburser/install"
	"github.com/remit-payouts/remit/internal/evm/token"
)

//go:embed contracts/TestToken.json
var artifact []byte // made from contracts/TestToken.sol by tools/contract

// The behaviours that a recipient may have in place of an ordinary transfer's, by their numbers in the contract.
const (
	RevertWhenMined uint8 = 1 // reverts only at a gas price, so that estimation passes
	ReturnFalse     uint8 = 2 // moves nothing, logs nothing, returns false
)

// Limits and tip of the owner's transactions.
const (
	deployGas = 15_000_000    // gas limit; under the rules of Amsterdam a byte of code costs 1,530
	callGas   = 300_000       // gas limit; under those rules a balance that becomes non-zero costs 97,920
	ownerTip  = 1_000_000_000 // wei per gas
)

// deploy makes the first block: the token, the contract that pays batches, the wallets' balances of the token, their
// allowances for batches, and the behaviour of RevertRecipient. The wallets have sent nothing: their nonces are unused.
func (c *Chain) deploy() error {
	var compiled struct {
		ABI      abi.ABI
		Bytecode hexutil.Bytes
	}
	if err := json.Unmarshal(artifact, &compiled); err != nil {
		return fmt.Errorf("reading the token's artifact: %w", err)
	}
	c.abi = compiled.ABI
	at, unlimited := common.Address(install.Deployer()), token.MaxAmount().Bytes32()
	// The names USDC and USD Coin have the length of EURC and EUR Coin.
	code := bytes.ReplaceAll(compiled.Bytecode, []byte("USD"), []byte(c.cfg.Symbol[:3]))
	txs := []*types.DynamicFeeTx{{Gas: deployGas, Data: code}, {Gas: deployGas, To: &at, Data: install.Deployment()}}
	for _, w := range c.wallets {
		mint, err := c.call("mint", common.Address(w.Address), bigInt(walletTokens))
		approve, approveErr := c.call("approveFor", common.Address(w.Address), common.Address(install.Address()),
			new(big.Int).SetBytes(unlimited[:]))
		if err := errors.Join(err, approveErr); err != nil {
			return err
		}
		txs = append(txs, mint, approve)
	}
	behave, err := c.call("setBehaviour", common.Address(RevertRecipient), RevertWhenMined)
	if err != nil {
		return err
	}
	if err := c.mineFor(append(txs, behave)...); err != nil {
		return fmt.Errorf("deploying the token: %w", err)
	}
	block := c.eth.BlockChain().GetBlockByHash(c.eth.BlockChain().CurrentBlock().Hash())
	c.deployed, c.old = block.NumberU64(), block.Transactions()[0]
	return nil
}

// Own calls a method of the token as its owner, in a block of that one transaction: pending payments stay pending.
// "blacklist" makes every transfer from or to an account revert, and "setBehaviour" gives a recipient a behaviour.
func (c *Chain) Own(method string, args ...any) error {
	call, err := c.call(method, args...)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.mineFor(call); err != nil {
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

// sign signs a transaction as the token's owner, at a price that is never the reason to miss a block.
func (c *Chain) sign(nonce uint64, tx *types.DynamicFeeTx) (*types.Transaction, error) {
	price := new(big.Int).Mul(c.nextBaseFee(), bigInt(1000))
	return c.signAt(price.Add(price, bigInt(ownerTip)), nonce, tx)
}

func (c *Chain) signAt(price *big.Int, nonce uint64, tx *types.DynamicFeeTx) (*types.Transaction, error) {
	tx.ChainID, tx.Nonce, tx.GasTipCap, tx.GasFeeCap = bigInt(c.cfg.ChainID), nonce, bigInt(ownerTip), price
	key, err := crypto.ToECDSA(c.owner.Key[:])
	if err != nil {
		return nil, err
	}
	return types.SignNewTx(key, types.LatestSignerForChainID(tx.ChainID), tx)
}

// mineFor makes one block of exactly these transactions of the token's owner. The caller holds mu.
func (c *Chain) mineFor(txs ...*types.DynamicFeeTx) error {
	account := common.Address(c.owner.Address)
	// The owner's transactions that a reorg has made pending again come first.
	signed, _ := c.eth.TxPool().ContentFrom(account)
	nonce := c.eth.TxPool().PoolNonce(account)
	for i, tx := range txs {
		s, err := c.sign(nonce+uint64(i), tx)
		if err != nil {
			return err
		}
		signed = append(signed, s)
	}
	return c.extend(signed)
}

// ErrForeign reports a chain that is no devnet with the default seed and chain id, or those of EURC.
var ErrForeign = errors.New("this is no chain of remit local, remit chain or make stage: the faucet is for these alone")

// Give mints tokens, in smallest units, to an account on the devnet at url, which may run in another
// process, sends it wei, and returns when both are mined or ctx ends. It signs as the token's owner,
// whose key is public. Another chain is ErrForeign; after any other error either may have been given.
func Give(ctx context.Context, url string, to token.Address, tokens, wei token.Amount) error {
	node, err := ethclient.DialContext(ctx, url)
	if err != nil {
		return fmt.Errorf("opening the node: %w", err)
	}
	defer node.Close()
	id, err := node.ChainID(ctx)
	if err != nil {
		return fmt.Errorf("querying the node: %w", err)
	}
	cfg := Config{}
	if id.Uint64() == cfg.EURC().ChainID {
		cfg = cfg.EURC()
	}
	c := &Chain{cfg: cfg.complete()}
	c.makeKeys()
	contract, account := common.Address(c.token.Contract), common.Address(to)
	code, codeErr := node.CodeAt(ctx, contract, nil)
	nonce, nonceErr := node.PendingNonceAt(ctx, common.Address(c.owner.Address))
	if err := errors.Join(codeErr, nonceErr); err != nil {
		return fmt.Errorf("querying the node: %w", err)
	}
	if id.Uint64() != c.cfg.ChainID || len(code) == 0 {
		return fmt.Errorf("chain %d at %s: %w", id, url, ErrForeign)
	}
	amount, value := tokens.Bytes32(), wei.Bytes32()
	mint := append(crypto.Keccak256([]byte("mint(address,uint256)"))[:4], common.LeftPadBytes(to[:], 32)...)
	var last *types.Transaction
	for i, tx := range []*types.DynamicFeeTx{
		{To: &contract, Data: append(mint, amount[:]...)}, {To: &account, Value: new(big.Int).SetBytes(value[:])}} {
		tx.Gas = callGas
		if last, err = c.signAt(bigInt(100_000*ownerTip), nonce+uint64(i), tx); err == nil { // enough for any base fee
			err = node.SendTransaction(ctx, last)
		}
		if err != nil {
			return fmt.Errorf("sending tokens and ether: %w", err)
		}
	}
	for tick := time.NewTicker(100 * time.Millisecond); ; { // the last is mined after the first
		if receipt, err := node.TransactionReceipt(ctx, last.Hash()); err == nil && receipt.Status == types.ReceiptStatusSuccessful {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", last.Hash(), ctx.Err())
		case <-tick.C:
		}
	}
}
