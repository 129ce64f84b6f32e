package devnet

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/miner"
)

// Distances of the tags "safe" and "finalized" from "latest", in blocks: both lie below the one block
// that a magic reorg replaces.
const (
	safeDepth      = 2
	finalizedDepth = 4
)

// maxReorg is the depth, in blocks, of the deepest reorg after which the transaction pool takes the lost transactions
// back (go-ethereum's legacypool gives up beyond it).
const maxReorg = 64

// Mine makes one block of all pending transactions that can pay its fee. If the block before was the first to mine a
// payment to ReorgRecipient, Mine instead replaces that block by two empty ones: its transactions are pending again.
func (c *Chain) Mine() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mine()
}

func (c *Chain) mine() error {
	if c.due != 0 {
		return c.replace(c.due - 1)
	}
	return c.extend(nil)
}

// Reorg replaces the latest depth blocks by depth+1 empty ones. Their transactions are pending again; DropPending
// after it makes the chain forget them. depth is 1 to 64 and cannot reach the block that deployed the token.
func (c *Chain) Reorg(depth int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	head := c.eth.BlockChain().CurrentBlock().Number.Uint64()
	if depth < 1 || depth > maxReorg || head < c.deployed+uint64(depth) {
		return fmt.Errorf("a reorg of %d blocks is impossible at height %d; wait for blocks", depth, head)
	}
	return c.replace(head - uint64(depth))
}

// DropPending makes the node forget every transaction that is not mined, as
// nodes do when they restart or their pool is full.
func (c *Chain) DropPending() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.eth.TxPool().Clear()
}

// Freeze ends, or with false resumes, the production of blocks every BlockTime.
func (c *Chain) Freeze(frozen bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frozen = frozen
}

// MineExactly makes one block of exactly these signed transactions, in this order: other pending transactions stay
// pending. Without arguments it makes an empty block. Each transaction must be valid after those before it.
func (c *Chain) MineExactly(raw ...[]byte) error {
	txs := make([]*types.Transaction, len(raw))
	for i, b := range raw {
		txs[i] = new(types.Transaction)
		if err := txs[i].UnmarshalBinary(b); err != nil {
			return fmt.Errorf("reading transaction %d of %d: %w", i, len(raw), err)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.extend(txs)
}

// produce mines a block every BlockTime until ctx ends.
func (c *Chain) produce(ctx context.Context) {
	tick := time.NewTicker(c.cfg.BlockTime)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		c.mu.Lock()
		if !c.frozen {
			if err := c.mine(); err != nil {
				c.cfg.Log.Error("mining a block", "err", err)
			}
		}
		c.mu.Unlock()
	}
}

// extend makes a block of txs, or of the pool's when txs is nil, and puts it on top of the chain.
func (c *Chain) extend(txs []*types.Transaction) error {
	if err := c.settlePool(); err != nil { // the block is to hold every accepted transaction
		return err
	}
	parent := c.eth.BlockChain().CurrentBlock()
	block, err := c.build(parent, max(parent.Time+1, uint64(c.cfg.Now().Unix())), txs)
	if err == nil && c.balances != nil {
		block, err = c.balances.charge(parent, block)
	}
	if err != nil {
		return err
	}
	return c.adopt(block)
}

// replace makes empty blocks on top of the block at height base until they
// outnumber the present ones, which adopts them.
func (c *Chain) replace(base uint64) error {
	head := c.eth.BlockChain().CurrentBlock()
	parent := c.eth.BlockChain().GetHeaderByNumber(base)
	var block *types.Block
	for range head.Number.Uint64() - base + 1 {
		var err error
		if block, err = c.build(parent, parent.Time+1, []*types.Transaction{}); err == nil && c.balances != nil {
			block, err = c.balances.charge(parent, block)
		}
		if err != nil {
			return err
		}
		parent = block.Header()
	}
	c.due = 0
	return c.adopt(block)
}

// build makes and stores a block that is not yet the head. It holds txs, which
// must be valid in that order, or the pool's transactions if txs is nil.
func (c *Chain) build(parent *types.Header, timestamp uint64, txs []*types.Transaction) (*types.Block, error) {
	c.salt++
	var random common.Hash
	binary.BigEndian.PutUint64(random[24:], c.salt)
	height := parent.Number.Uint64() + 1 // also the number of the beacon block, which headers have since Amsterdam
	args := &miner.BuildPayloadArgs{Parent: parent.Hash(), Timestamp: timestamp, Random: random,
		Withdrawals: types.Withdrawals{}, BeaconRoot: new(common.Hash), SlotNum: &height}
	empty := txs != nil && len(txs) == 0
	block, _, err := c.eth.Miner().BuildTestingPayload(args, txs, empty, nil)
	if err != nil {
		return nil, fmt.Errorf("building a block on %d: %w", parent.Number, err)
	}
	if _, err := c.eth.BlockChain().InsertBlockWithoutSetHead(context.Background(), block, false); err != nil {
		return nil, fmt.Errorf("storing block %d: %w", block.NumberU64(), err)
	}
	return block, nil
}

// adopt makes block the head and waits until the pool has seen it, so that lost transactions are pending again and
// mined ones are not. Requests wait meanwhile, so that no client sees half a reorg.
func (c *Chain) adopt(block *types.Block) error {
	if err := c.receipts.learn(block); err != nil {
		return err
	}
	c.gate.Lock()
	defer c.gate.Unlock()
	if err := c.settlePool(); err != nil {
		return err
	}
	blocks := c.eth.BlockChain()
	if _, err := blocks.SetCanonical(block); err != nil {
		return fmt.Errorf("adopting block %d: %w", block.NumberU64(), err)
	}
	c.meetMagic(block)
	safe, final := uint64(safeDepth), uint64(finalizedDepth)
	if c.cfg.TokenGas {
		safe, final = 0, 0
	}
	blocks.SetSafe(blocks.GetHeaderByNumber(block.NumberU64() - min(block.NumberU64(), safe)))
	blocks.SetFinalized(blocks.GetHeaderByNumber(block.NumberU64() - min(block.NumberU64(), final)))
	if err := c.eth.TxPool().Sync(); err != nil {
		return fmt.Errorf("resetting the pool: %w", err)
	}
	return nil
}

// settlePool waits until every accepted transaction that is next in line is ready to be mined. A new head
// before that makes the pool forget a transaction. The only call that waits is adding one: an old one of
// the owner's is refused (nonce too low) once the pool has finished all work before it.
func (c *Chain) settlePool() error {
	if c.old == nil {
		return nil // no transaction was ever sent
	}
	if err := c.eth.TxPool().Add([]*types.Transaction{c.old}, true)[0]; !errors.Is(err, core.ErrNonceTooLow) {
		return fmt.Errorf("waiting for the pool: %w", err)
	}
	return nil
}
