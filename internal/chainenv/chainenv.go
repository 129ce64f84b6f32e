// Package chainenv reads from a function's environment its part about the chain:
// the token, the rules of the stack, and the nodes. Nodes change while a
// function lives, whenever an operator changes the RPC secret.
package chainenv

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"remit/internal/boot"
	"remit/internal/chain"
	"remit/internal/chains"
	"remit/internal/ethrpc"
	"remit/internal/secrets"
	"remit/internal/stack"
	"remit/internal/token"
)

// Token returns the stack's token, from TOKEN_SYMBOL, TOKEN_DECIMALS and
// TOKEN_ADDRESS.
func Token(env *boot.Env) token.Token {
	return token.Token{
		Symbol:   env.String("TOKEN_SYMBOL"),
		Decimals: env.Int("TOKEN_DECIMALS"),
		Contract: boot.Parse(env, "TOKEN_ADDRESS", token.ParseAddress),
	}
}

// Sanctions returns the list that recipients are held against, from SANCTIONS_LIST;
// zero if that is empty.
func Sanctions(env *boot.Env) (list token.Address) {
	if env.Optional("SANCTIONS_LIST", "") != "" {
		list = boot.Parse(env, "SANCTIONS_LIST", token.ParseAddress)
	}
	return list
}

// BatchContract returns the contract through which batches are paid, from
// BATCH_CONTRACT; zero, if that is empty: batches are not enabled.
func BatchContract(env *boot.Env) (contract token.Address) {
	if env.Optional("BATCH_CONTRACT", "") != "" {
		contract = boot.Parse(env, "BATCH_CONTRACT", token.ParseAddress)
	}
	return contract
}

// Refills returns how wallets are refilled, from REFILL_TOKEN and REFILL_ETHER: mark,
// amount and daily limit in the asset's smallest unit, with commas between them. Where
// one is empty its asset is not refilled.
func Refills(env *boot.Env) stack.Refills {
	refills := stack.Refills{Mode: env.String("MODE")}
	if env.Optional("REFILL_TOKEN", "") != "" {
		refills.Token = boot.Parse(env, "REFILL_TOKEN", stack.ParseRefill)
	}
	if env.Optional("REFILL_ETHER", "") != "" {
		refills.Ether = boot.Parse(env, "REFILL_ETHER", stack.ParseRefill)
	}
	return refills
}

// SilentAfter returns how long a node is silent before payments are confirmed without it
// (stack.Config), from QUORUM and MODE.
func SilentAfter(env *boot.Env) time.Duration {
	mode := env.String("MODE")
	parse := func(text string) (time.Duration, error) { return stack.ParseQuorum(text, mode) }
	if env.Optional("QUORUM", "") != "" {
		return boot.Parse(env, "QUORUM", parse)
	}
	after, _ := parse("")
	return after
}

// Config returns the rules that both engines work by: those of the environment
// and, for each that is empty or 0 there, the chain's own, but in live mode the rule
// finalized. It sets no limit to amounts. Of a chain that is not known it logs which values the stack has.
func Config(env *boot.Env) stack.Config {
	config := stack.Config{
		ChainID:  env.Uint64("CHAIN_ID"),
		Token:    Token(env),
		Window:   env.Uint64("NONCE_WINDOW"),
		FeeLimit: chains.Gwei(env.Uint64("MAX_FEE_CAP_GWEI")),
	}
	if env.Optional("TREASURY_ALLOWANCE", "") != "" {
		config.TreasuryAllowance = boot.Parse(env, "TREASURY_ALLOWANCE", token.ParseAddress)
	}
	config.ConfirmationRule = chains.Chosen(env.String("MODE"))
	if env.Optional("CONFIRMATION_RULE", "") != "" {
		config.ConfirmationRule = boot.Parse(env, "CONFIRMATION_RULE", chain.ParseConfirmationRule)
	}
	if env.Optional("BLOCK_TIME", "") != "" {
		config.BlockTime = env.Duration("BLOCK_TIME")
	}
	own, known := chains.Of(config.ChainID)
	full := own.Complete(config)
	if !known && full != config && config.ChainID > 0 {
		slog.Warn("chain is not known", "chain_id", config.ChainID, "confirmation_rule", full.ConfirmationRule.String(),
			"block_time", full.BlockTime.String(), "fee_limit", full.FeeLimit.String(), "window", full.Window)
	}
	full.Share = stack.Share(full.Window, env.Uint64("MERCHANT_SHARE"))
	return full
}

// Nodes returns the nodes of chain CHAIN_ID that the secret RPC_SECRET names at
// the moment, watched for as long as it names them. With a treasury an account's
// balance is what it may spend of the treasury's (ethrpc.Config). The secret is not read yet: a
// function whose secret has no value starts, and says so when a node is needed.
func Nodes(env *boot.Env, treasury token.Address, now func() time.Time) chain.Provider {
	chainID := env.Uint64("CHAIN_ID")
	secret := secrets.Open(env.AWS, env.String("RPC_SECRET"), now)
	return provider{secrets.Cache(secret.Value, func(value []byte) (chain.Nodes, error) {
		nodes, err := open(value, chainID, treasury)
		return nodes.Watch(now, time.After), err
	})}
}

type provider struct{ nodes *secrets.Cached[chain.Nodes] }

// Nodes implements chain.Provider.
func (p provider) Nodes(ctx context.Context) (chain.Nodes, error) { return p.nodes.Get(ctx) }

// open opens the nodes; none is asked anything yet.
func open(value []byte, chainID uint64, treasury token.Address) (chain.Nodes, error) {
	urls, err := secrets.RPC(value)
	if err != nil {
		return nil, err
	}
	own, _ := chains.Of(chainID)
	transport := ethrpc.NewTransport()
	var nodes chain.Nodes
	for i, url := range urls {
		node, err := ethrpc.Open(url, ethrpc.Config{ChainID: chainID, L1Fee: own.L1Fee, Treasury: treasury, Transport: transport})
		if err != nil {
			return nil, fmt.Errorf("opening urls[%d]: %w", i, err)
		}
		nodes = append(nodes, node)
	}
	return nodes, nil
}
