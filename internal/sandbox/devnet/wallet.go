package devnet

import (
	"context"
	"encoding/hex"
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/remit-payouts/remit/internal/evm/token"
)

// Balances at the start.
const (
	walletTokens = 1_000_000_000_000 // 1,000,000 USDC
	walletGas    = 1_000             // ether
	ownerGas     = 1_000_000         // ether
)

// A Wallet is an account whose key is public: the key of wallet n is keccak256("<seed>/wallet/<n>"), n from 0. Never
// send anything of value to one, on any chain.
type Wallet struct {
	Address token.Address
	Key     [32]byte // secp256k1 private key
}

// PrivateKey returns the key as "0x" and 64 hex digits, the form that other tools import.
func (w Wallet) PrivateKey() string { return "0x" + hex.EncodeToString(w.Key[:]) }

// derive returns the account of the key keccak256("<seed>/<role>").
func derive(seed, role string) Wallet {
	w := Wallet{Key: crypto.Keccak256Hash([]byte(seed + "/" + role))}
	key, err := crypto.ToECDSA(w.Key[:])
	if err != nil {
		panic(err) // one seed in 2^128 gives no key
	}
	w.Address = token.Address(crypto.PubkeyToAddress(key.PublicKey))
	return w
}

func (c *Chain) makeKeys() {
	c.owner = derive(c.cfg.Seed, "owner")
	for n := range c.cfg.Wallets {
		c.wallets = append(c.wallets, derive(c.cfg.Seed, fmt.Sprintf("wallet/%d", n)))
	}
	contract := crypto.CreateAddress(common.Address(c.owner.Address), 0)
	c.token = token.Token{Symbol: c.cfg.Symbol, Decimals: 6, Contract: token.Address(contract)}
}

// Facts are the addresses and settings of a chain. As JSON they are the answer of GET /sandbox, with its assets.
type Facts struct {
	AssetFacts
	BlockTimeSeconds float64 `json:"block_time_seconds"` // 0 when blocks are made on demand

	// ConfirmationRule is the rule of the engines that read the chain. The chain
	// does not know it: the caller fills it in.
	ConfirmationRule string `json:"finality,omitempty"`

	// Assets are those of the stack, each on a chain of its own. The caller fills them in.
	Assets []AssetFacts `json:"assets,omitempty"`

	// PrivateKeys are the wallets' keys in the same order, "0x" and 64 hex digits each. GET /sandbox leaves them out.
	PrivateKeys []string `json:"private_keys,omitempty"`
}

// AssetFacts are the facts of one asset of a stack.
type AssetFacts struct {
	Asset      string        `json:"asset,omitempty"` // the caller fills it in
	RPCURL     string        `json:"rpc_url"`
	ChainID    uint64        `json:"chain_id"`
	Token      TokenFacts    `json:"token"`
	Wallets    []WalletFacts `json:"wallets"`
	Recipients []Recipient   `json:"recipients"`
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
		AssetFacts: AssetFacts{RPCURL: c.url, ChainID: c.cfg.ChainID, Recipients: Recipients(),
			Token: TokenFacts{c.token.Contract, c.token.Symbol, c.token.Decimals}},
		BlockTimeSeconds: c.cfg.BlockTime.Seconds(),
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
