package devnet

import (
	"context"
	"fmt"
	"maps"
	"sync"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/rpc"

	"github.com/remit-payouts/remit/internal/evm/token"
)

type blockReceipts interface {
	GetBlockReceipts(ctx context.Context, block rpc.BlockNumberOrHash) ([]map[string]any, error)
}

// receipts answers eth_getTransactionReceipt instead of the node, with the node's receipts of the whole block. The node
// finds a transaction by hashing its block's transactions one after the other, which in blocks of hundreds costs more
// than the rest of a payment. And only receipts can report falsely that a stuck transaction is in the latest block.
type receipts struct {
	node   blockReceipts
	blocks *core.BlockChain

	mu    sync.RWMutex
	mined map[common.Hash]mined
	stuck map[common.Hash]bool // their receipts move to the latest block, for ever
}

// A mined is the receipt of a transaction as it was last mined. A reorg may have removed its block since.
type mined struct {
	number  uint64
	receipt map[string]any
}

func (r *receipts) learn(block *types.Block) error {
	read, err := r.node.GetBlockReceipts(context.Background(), rpc.BlockNumberOrHashWithHash(block.Hash(), false))
	if err != nil {
		return fmt.Errorf("reading the receipts of block %d: %w", block.NumberU64(), err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, tx := range block.Transactions() {
		r.mined[tx.Hash()] = mined{block.NumberU64(), read[i]}
	}
	return nil
}

// GetTransactionReceipt answers eth_getTransactionReceipt: null for a transaction that is not mined.
func (r *receipts) GetTransactionReceipt(_ context.Context, tx common.Hash) map[string]any {
	r.mu.RLock()
	at, known := r.mined[tx]
	stuck := r.stuck[tx]
	r.mu.RUnlock()
	if !known || r.blocks.GetCanonicalHash(at.number) != at.receipt["blockHash"] {
		return nil
	}
	if !stuck {
		return at.receipt
	}
	head, moved := r.blocks.CurrentBlock(), maps.Clone(at.receipt)
	logs, _ := at.receipt["logs"].([]*types.Log)
	there := make([]types.Log, len(logs))
	for i, log := range logs {
		there[i] = *log
		there[i].BlockHash, there[i].BlockNumber, there[i].BlockTimestamp = head.Hash(), head.Number.Uint64(), head.Time
	}
	moved["blockHash"], moved["blockNumber"], moved["logs"] = head.Hash(), hexutil.Uint64(head.Number.Uint64()), there
	return moved
}

// The magic recipients. A payment to one of them is accepted like any other.
var (
	// A payment to RevertRecipient passes estimation but reverts when it is mined.
	RevertRecipient = token.Address{0: 0x7e, 1: 0x57, 19: 0x01}
	// A payment to StuckRecipient never becomes final. It is mined, so that it does not hold up later payments of its
	// wallet, but its receipt always reports that it is in the latest block.
	StuckRecipient = token.Address{0: 0x7e, 1: 0x57, 19: 0x02}
	// The block that first mines a payment to ReorgRecipient is replaced one
	// block later. Its transactions are pending again, and are mined again.
	ReorgRecipient = token.Address{0: 0x7e, 1: 0x57, 19: 0x03}
)

// A Recipient is an address that has a behaviour of its own on this chain.
type Recipient struct {
	Address   token.Address `json:"address"`
	Behaviour string        `json:"behaviour"` // "revert", "stuck" or "reorg"
}

// Recipients returns the magic recipients.
func Recipients() []Recipient {
	return []Recipient{{RevertRecipient, "revert"}, {StuckRecipient, "stuck"}, {ReorgRecipient, "reorg"}}
}

// meetMagic notes the payments to magic recipients in a block that has just become the head.
func (c *Chain) meetMagic(block *types.Block) {
	if len(block.Transactions()) == 0 {
		return
	}
	for _, receipt := range c.eth.BlockChain().GetReceiptsByHash(block.Hash()) {
		for _, log := range receipt.Logs {
			transfer, ok := c.readTransfer(log)
			if !ok {
				continue
			}
			hash := log.TxHash
			switch {
			case transfer.To == StuckRecipient:
				c.receipts.mu.Lock()
				c.receipts.stuck[hash] = true
				c.receipts.mu.Unlock()
			case transfer.To == ReorgRecipient && !c.reorged[hash] && !c.cfg.TokenGas: // there every block is final
				c.reorged[hash] = true
				if c.due == 0 {
					c.due = block.NumberU64()
				}
			}
		}
	}
}
