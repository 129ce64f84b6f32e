package devnet

import (
	"context"
	"sync"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core"
	"github.com/ethereum/go-ethereum/core/types"
)

// receipts answers eth_getTransactionReceipt in the node's stead. The node finds
// a transaction by hashing its block's transactions one after the other, which
// in blocks of hundreds costs more than the rest of a payment. And only receipts
// can say falsely that a stuck transaction is in the latest block.
type receipts struct {
	blocks *core.BlockChain

	mu     sync.RWMutex
	places map[common.Hash]place
	stuck  map[common.Hash]bool
}

// A place is the position where a transaction was last mined. A reorg may have
// removed its block since.
type place struct {
	block  common.Hash
	number uint64
	index  int
}

func newReceipts(blocks *core.BlockChain) *receipts {
	return &receipts{blocks: blocks, places: make(map[common.Hash]place), stuck: make(map[common.Hash]bool)}
}

// learn notes where the transactions of a new block are.
func (r *receipts) learn(block *types.Block) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, tx := range block.Transactions() {
		r.places[tx.Hash()] = place{block.Hash(), block.NumberU64(), i}
	}
}

// pretend makes a mined transaction stuck for ever: its receipt moves to the
// latest block.
func (r *receipts) pretend(tx common.Hash) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stuck[tx] = true
}

func (r *receipts) find(tx common.Hash) (at place, known, stuck bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	at, known = r.places[tx]
	return at, known, r.stuck[tx]
}

// receiptReply is a receipt as the Ethereum JSON-RPC specification has it,
// with the blockTimestamp in logs that go-ethereum adds.
type receiptReply struct {
	BlockHash         common.Hash     `json:"blockHash"`
	BlockNumber       *hexutil.Big    `json:"blockNumber"`
	ContractAddress   *common.Address `json:"contractAddress"`
	CumulativeGasUsed hexutil.Uint64  `json:"cumulativeGasUsed"`
	EffectiveGasPrice *hexutil.Big    `json:"effectiveGasPrice"`
	From              common.Address  `json:"from"`
	GasUsed           hexutil.Uint64  `json:"gasUsed"`
	Logs              []*types.Log    `json:"logs"`
	LogsBloom         types.Bloom     `json:"logsBloom"`
	Status            hexutil.Uint64  `json:"status"`
	To                *common.Address `json:"to"`
	TransactionHash   common.Hash     `json:"transactionHash"`
	TransactionIndex  hexutil.Uint64  `json:"transactionIndex"`
	Type              hexutil.Uint64  `json:"type"`
}

// GetTransactionReceipt answers eth_getTransactionReceipt: null for a transaction
// that is not mined.
func (r *receipts) GetTransactionReceipt(_ context.Context, tx common.Hash) *receiptReply {
	at, known, stuck := r.find(tx)
	if !known || r.blocks.GetCanonicalHash(at.number) != at.block {
		return nil
	}
	// The cached block has its transactions' senders, which are costly to recover.
	block := r.blocks.GetBlock(at.block, at.number)
	reply := newReply(block.Transactions()[at.index], r.blocks.GetReceiptsByHash(at.block)[at.index])
	if stuck {
		reply.move(r.blocks.CurrentBlock())
	}
	return reply
}

func newReply(tx *types.Transaction, receipt *types.Receipt) *receiptReply {
	from, _ := types.Sender(types.LatestSignerForChainID(tx.ChainId()), tx) // no error: it was mined
	reply := &receiptReply{
		BlockHash:         receipt.BlockHash,
		BlockNumber:       (*hexutil.Big)(receipt.BlockNumber),
		CumulativeGasUsed: hexutil.Uint64(receipt.CumulativeGasUsed),
		EffectiveGasPrice: (*hexutil.Big)(receipt.EffectiveGasPrice),
		From:              from,
		GasUsed:           hexutil.Uint64(receipt.GasUsed),
		Logs:              receipt.Logs,
		LogsBloom:         receipt.Bloom,
		Status:            hexutil.Uint64(receipt.Status),
		To:                tx.To(),
		TransactionHash:   receipt.TxHash,
		TransactionIndex:  hexutil.Uint64(receipt.TransactionIndex),
		Type:              hexutil.Uint64(tx.Type()),
	}
	if tx.To() == nil {
		reply.ContractAddress = &receipt.ContractAddress
	}
	if reply.Logs == nil {
		reply.Logs = []*types.Log{}
	}
	return reply
}

// move puts a receipt into another block.
func (r *receiptReply) move(to *types.Header) {
	r.BlockHash = to.Hash()
	r.BlockNumber = (*hexutil.Big)(to.Number)
	logs := make([]*types.Log, len(r.Logs))
	for i, log := range r.Logs {
		moved := *log
		moved.BlockHash, moved.BlockNumber, moved.BlockTimestamp = r.BlockHash, to.Number.Uint64(), to.Time
		logs[i] = &moved
	}
	r.Logs = logs
}
