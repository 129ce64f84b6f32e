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
)

type blockReceipts interface {
	GetBlockReceipts(ctx context.Context, block rpc.BlockNumberOrHash) ([]map[string]any, error)
}

// receipts answers eth_getTransactionReceipt instead of the node, with the node's
// receipts of the whole block. The node finds a transaction by hashing its block's
// transactions one after the other, which in blocks of hundreds costs more than
// the rest of a payment. And only receipts can report falsely that a stuck
// transaction is in the latest block.
type receipts struct {
	node   blockReceipts
	blocks *core.BlockChain

	mu    sync.RWMutex
	mined map[common.Hash]mined
	stuck map[common.Hash]bool
}

// A mined is the receipt of a transaction as it was last mined. A reorg may have
// removed its block since.
type mined struct {
	number  uint64
	receipt map[string]any
}

// learn keeps the receipts of a new block.
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

// pretend makes a mined transaction stuck forever: its receipt moves to the
// latest block.
func (r *receipts) pretend(tx common.Hash) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stuck[tx] = true
}

// GetTransactionReceipt answers eth_getTransactionReceipt: null for a transaction
// that is not mined.
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
