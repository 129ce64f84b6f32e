package devnet

import (
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"

	"remit/internal/token"
)

// The magic recipients: a payment to one of them is accepted like any other,
// and then …
var (
	// RevertRecipient: … it passes estimation but reverts when it is mined.
	RevertRecipient = token.Address{0: 0x7e, 1: 0x57, 19: 0x01}
	// StuckRecipient: … it never becomes final. It is mined, so that later
	// payments of its wallet are not held up, but whoever asks for its
	// receipt is told that it is in the latest block.
	StuckRecipient = token.Address{0: 0x7e, 1: 0x57, 19: 0x02}
	// ReorgRecipient: … the block that first mines it is re-organised away one
	// block later, with all else in it; then it is mined again.
	ReorgRecipient = token.Address{0: 0x7e, 1: 0x57, 19: 0x03}
)

// A Recipient is an address that has a behaviour of its own on this chain.
type Recipient struct {
	Address   token.Address `json:"address"`
	Behaviour string        `json:"behaviour"` // "revert", "stuck" or "reorg"
}

// Recipients returns the magic recipients.
func Recipients() []Recipient {
	return []Recipient{
		{RevertRecipient, "revert"},
		{StuckRecipient, "stuck"},
		{ReorgRecipient, "reorg"},
	}
}

// meetMagic notes what the magic recipients ask for in a block that has just
// become the head.
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
			hash := common.Hash(transfer.Tx)
			switch {
			case transfer.To == StuckRecipient:
				c.receipts.pretend(hash)
			case transfer.To == ReorgRecipient && !c.reorged[hash]:
				c.reorged[hash] = true
				if c.due == 0 {
					c.due = block.NumberU64()
				}
			}
		}
	}
}
