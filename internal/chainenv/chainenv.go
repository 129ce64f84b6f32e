// Package chainenv reads from a function's environment its part about the chain:
// the token, the rules of the stack, and the nodes. Nodes change while a
// function lives, whenever an operator changes the RPC secret.
package chainenv

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"remit/internal/boot"
	"remit/internal/chain"
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

// Config returns the rules that both engines work by. It sets no limit to
// amounts.
func Config(env *boot.Env) stack.Config {
	return stack.Config{
		ChainID:          env.Uint64("CHAIN_ID"),
		Token:            Token(env),
		Window:           env.Uint64("NONCE_WINDOW"),
		FeeLimit:         boot.Parse(env, "MAX_FEE_CAP_GWEI", parseGwei),
		ConfirmationRule: boot.Parse(env, "CONFIRMATION_RULE", chain.ParseConfirmationRule),
		BlockTime:        env.Duration("BLOCK_TIME"),
	}
}

// Nodes returns the nodes of chain CHAIN_ID that the secret RPC_SECRET names at
// the moment, watched for as long as it names them. The secret is not read yet: a
// function whose secret has no value starts, and says so when a node is needed.
func Nodes(env *boot.Env, now func() time.Time) chain.Provider {
	chainID := env.Uint64("CHAIN_ID")
	secret := secrets.Open(env.AWS, env.String("RPC_SECRET"), now)
	return provider{secrets.Cache(secret.Value, func(value []byte) (chain.Nodes, error) {
		nodes, err := open(value, chainID)
		return nodes.Watch(now, time.After), err
	})}
}

type provider struct{ nodes *secrets.Cached[chain.Nodes] }

// Nodes implements chain.Provider.
func (p provider) Nodes(ctx context.Context) (chain.Nodes, error) { return p.nodes.Get(ctx) }

// open opens the nodes; none is asked anything yet.
func open(value []byte, chainID uint64) (chain.Nodes, error) {
	urls, err := secrets.RPC(value)
	if err != nil {
		return nil, err
	}
	transport := ethrpc.NewTransport()
	var nodes chain.Nodes
	for i, url := range urls {
		node, err := ethrpc.Open(url, ethrpc.Config{ChainID: chainID, Transport: transport})
		if err != nil {
			return nil, fmt.Errorf("opening urls[%d]: %w", i, err)
		}
		nodes = append(nodes, node)
	}
	return nodes, nil
}

// parseGwei reads a whole number of gwei as an amount of wei.
func parseGwei(s string) (token.Amount, error) {
	gwei, err := strconv.ParseUint(s, 10, 63)
	if err != nil {
		return token.Amount{}, fmt.Errorf("%q is not a number of gwei", s)
	}
	return token.ParseAmount(strconv.FormatUint(gwei, 10) + "000000000")
}
