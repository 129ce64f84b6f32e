package devnet

import (
	"github.com/ethereum/go-ethereum/core/types"

	"github.com/remit-payouts/remit/internal/evm/token"
)

// The magic recipients. A payment to one of them is accepted like any other.
var (
	// A payment to RevertRecipient passes estimation but reverts when it is mined.
	RevertRecipient = token.Address{0: 0x7e, 1: 0x57, 19: 0x01}
	// A payment to StuckRecipient never becomes final. It is mined, so that it
	// does not hold up later payments of its wallet, but its receipt always reports
	// that it is in the latest block.
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
	return []Recipient{
		{RevertRecipient, "revert"},
		{StuckRecipient, "stuck"},
		{ReorgRecipient, "reorg"},
	}
}

// meetMagic notes the payments to magic recipients in a block that has just become
// the head.
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
				c.receipts.pretend(hash)
			case transfer.To == ReorgRecipient && !c.reorged[hash] && !c.cfg.TokenGas: // there every block is final
				c.reorged[hash] = true
				if c.due == 0 {
					c.due = block.NumberU64()
				}
			}
		}
	}
}
