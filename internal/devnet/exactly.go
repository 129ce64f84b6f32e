package devnet

import (
	"fmt"

	"github.com/ethereum/go-ethereum/core/types"
)

// MineExactly makes one block of exactly these signed transactions, in this
// order: other pending transactions stay pending. Without arguments it makes an
// empty block. Each transaction must be valid after those before it.
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
