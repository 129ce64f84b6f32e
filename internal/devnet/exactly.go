package devnet

import (
	"fmt"

	"github.com/ethereum/go-ethereum/core/types"
)

// MineExactly makes one block of these signed transactions, in this order, and
// of nothing else: what is pending besides stays pending. Without any it makes
// an empty block. Each must be valid where it stands.
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
