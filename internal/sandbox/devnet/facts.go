package devnet

import (
	"context"

	"github.com/remit-payouts/remit/internal/evm/token"
)

// Facts are the addresses and settings of a chain. As JSON they are the answer of
// GET /sandbox.
type Facts struct {
	RPCURL           string        `json:"rpc_url"`
	ChainID          uint64        `json:"chain_id"`
	Token            TokenFacts    `json:"token"`
	Wallets          []WalletFacts `json:"wallets"`
	BlockTimeSeconds float64       `json:"block_time_seconds"` // 0 when blocks are made on demand

	// ConfirmationRule is the rule of the engines that read the chain. The chain
	// does not know it: the caller fills it in.
	ConfirmationRule string `json:"finality,omitempty"`

	Recipients []Recipient `json:"recipients"`

	// PrivateKeys are the wallets' keys in the same order, "0x" and 64 hex digits each. GET /sandbox
	// leaves them out.
	PrivateKeys []string `json:"private_keys,omitempty"`
}

// TokenFacts describe the test token.
type TokenFacts struct {
	Address  token.Address `json:"address"`
	Symbol   string        `json:"symbol"`
	Decimals int           `json:"decimals"`
}

// WalletFacts are a wallet's balances at the latest block.
type WalletFacts struct {
	Address      token.Address `json:"address"`
	TokenBalance token.Amount  `json:"token_balance"` // smallest units
	GasBalance   token.Amount  `json:"gas_balance"`   // wei
}

// Facts returns the facts as they are now.
func (c *Chain) Facts(ctx context.Context) (Facts, error) {
	f := Facts{
		RPCURL:           c.url,
		ChainID:          c.cfg.ChainID,
		Token:            TokenFacts{c.token.Contract, c.token.Symbol, c.token.Decimals},
		BlockTimeSeconds: c.cfg.BlockTime.Seconds(),
		Recipients:       Recipients(),
	}
	for _, w := range c.wallets {
		has, err := c.Account(ctx, w.Address)
		if err != nil {
			return Facts{}, err
		}
		f.Wallets = append(f.Wallets, WalletFacts{w.Address, has.Balance, has.Gas})
		f.PrivateKeys = append(f.PrivateKeys, w.PrivateKey())
	}
	return f, nil
}
