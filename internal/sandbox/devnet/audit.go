package devnet

import (
	"context"
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
)

// A Transfer is one Transfer log of the test token.
type Transfer struct {
	Tx       chain.Hash
	Block    uint64
	From, To token.Address
	Amount   token.Amount
}

// TransferLogs returns every transfer out of the chain's wallets that is mined on
// the present chain, oldest first. It reads the blocks themselves, so it lists
// payments to StuckRecipient in their true block.
func (c *Chain) TransferLogs(ctx context.Context) ([]Transfer, error) {
	ours := make(map[token.Address]bool, len(c.wallets))
	for _, w := range c.wallets {
		ours[w.Address] = true
	}
	// Blocks must not be replaced while they are read.
	c.mu.Lock()
	defer c.mu.Unlock()
	blocks := c.eth.BlockChain()
	var transfers []Transfer
	for number := c.deployed; number <= blocks.CurrentBlock().Number.Uint64(); number++ {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("reading block %d: %w", number, err)
		}
		header := blocks.GetHeaderByNumber(number)
		if header.TxHash == types.EmptyTxsHash {
			continue
		}
		for _, receipt := range blocks.GetReceiptsByHash(header.Hash()) {
			for _, log := range receipt.Logs {
				if transfer, ok := c.readTransfer(log); ok && ours[transfer.From] && transfer.To != gasAccount {
					transfers = append(transfers, transfer)
				}
			}
		}
	}
	return transfers, nil
}

// readTransfer reads a Transfer log of the token; false for any other log.
func (c *Chain) readTransfer(log *types.Log) (Transfer, bool) {
	if log.Address != common.Address(c.token.Contract) || len(log.Topics) != 3 || log.Topics[0] != c.abi.Events["Transfer"].ID {
		return Transfer{}, false
	}
	amount, err := token.AmountFromBytes(log.Data)
	if err != nil {
		return Transfer{}, false
	}
	return Transfer{
		Tx:     chain.Hash(log.TxHash),
		Block:  log.BlockNumber,
		From:   token.Address(log.Topics[1][12:]),
		To:     token.Address(log.Topics[2][12:]),
		Amount: amount,
	}, true
}

// NonceOf returns how many transactions of a are mined in the latest block's
// state.
func (c *Chain) NonceOf(ctx context.Context, a token.Address) (uint64, error) {
	nonce, err := c.client.NonceAt(ctx, common.Address(a), nil)
	if err != nil {
		return 0, fmt.Errorf("reading the nonce of %s: %w", a, err)
	}
	return nonce, nil
}
