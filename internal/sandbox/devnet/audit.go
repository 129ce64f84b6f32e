package devnet

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
)

// A Block is a block with the transfers of the test token out of the chain's wallets, in order.
type Block struct {
	chain.Block
	Transfers []Transfer
}

// A Transfer is one Transfer log of the test token.
type Transfer struct {
	Tx       chain.MinedTx // which made it; without its value and time
	From, To token.Address
	Amount   token.Amount
}

// Since returns the blocks of the present chain above the newest that is known, oldest first. It reads
// the blocks themselves, so it lists payments to StuckRecipient in their true block.
func (c *Chain) Since(known func(chain.Block) bool) (blocks []Block) {
	ours := make(map[token.Address]bool, len(c.wallets))
	for _, w := range c.wallets {
		ours[w.Address] = true
	}
	// Blocks must not be replaced while they are read.
	c.mu.Lock()
	defer c.mu.Unlock()
	stored := c.eth.BlockChain()
	for header := stored.CurrentBlock(); header != nil; header = stored.GetHeaderByHash(header.ParentHash) {
		block := Block{Block: chain.Block{Number: header.Number.Uint64(), Hash: chain.Hash(header.Hash())}}
		if known(block.Block) {
			break
		}
		if header.TxHash != types.EmptyTxsHash {
			txs := stored.GetBlockByHash(header.Hash()).Transactions()
			for _, receipt := range stored.GetReceiptsByHash(header.Hash()) {
				for _, log := range receipt.Logs {
					if t, ok := c.readTransfer(log); ok && ours[t.From] && t.To != gasAccount {
						tx := txs[log.TxIndex]
						t.Tx = chain.MinedTx{Hash: chain.Hash(tx.Hash()), From: t.From, To: token.Address(*tx.To()),
							Nonce: tx.Nonce(), Data: string(tx.Data()), Block: block.Number}
						block.Transfers = append(block.Transfers, t)
					}
				}
			}
		}
		blocks = append(blocks, block)
	}
	slices.Reverse(blocks)
	return blocks
}

// readTransfer reads a Transfer log of the token; false for any other log.
func (c *Chain) readTransfer(log *types.Log) (Transfer, bool) {
	if log.Address != common.Address(c.token.Contract) || len(log.Topics) != 3 || log.Topics[0] != c.abi.Events["Transfer"].ID {
		return Transfer{}, false
	}
	amount, err := token.AmountFromBytes(log.Data)
	return Transfer{From: token.Address(log.Topics[1][12:]), To: token.Address(log.Topics[2][12:]), Amount: amount}, err == nil
}

// Account returns an account's balances and its count of mined transactions at the latest block.
func (c *Chain) Account(ctx context.Context, a token.Address) (chain.Account, error) {
	account, contract := common.Address(a), common.Address(c.token.Contract)
	data, err := c.abi.Pack("balanceOf", account)
	word, tokensErr := c.client.CallContract(ctx, ethereum.CallMsg{To: &contract, Data: data}, nil)
	wei, weiErr := c.client.BalanceAt(ctx, account, nil)
	nonce, nonceErr := c.client.NonceAt(ctx, account, nil)
	if err := errors.Join(err, tokensErr, weiErr, nonceErr); err != nil {
		return chain.Account{}, fmt.Errorf("reading the account %s: %w", a, err)
	}
	tokens, tokensErr := token.AmountFromBytes(word)
	gas, weiErr := token.AmountFromBytes(wei.Bytes())
	return chain.Account{Mined: nonce, Balance: tokens, Gas: gas}, errors.Join(tokensErr, weiErr)
}
