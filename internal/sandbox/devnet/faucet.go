package devnet

import (
	"context"
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

// ErrForeign reports a chain that is no devnet with the default seed and chain id.
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
	c := &Chain{cfg: Config{}.complete()}
	if err := c.makeKeys(); err != nil {
		return err
	}
	contract, account := common.Address(c.token.Contract), common.Address(to)
	id, idErr := node.ChainID(ctx)
	code, codeErr := node.CodeAt(ctx, contract, nil)
	nonce, nonceErr := node.PendingNonceAt(ctx, common.Address(c.owner.Address))
	if err := errors.Join(idErr, codeErr, nonceErr); err != nil {
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
