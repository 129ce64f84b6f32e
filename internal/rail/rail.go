// Package rail puts together, from a function's environment, what reaches the
// chain: the token and the nodes. Those change while a function lives, whenever
// somebody changes the RPC secret.
package rail

import (
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"remit/internal/boot"
	"remit/internal/chain"
	"remit/internal/ethrpc"
	"remit/internal/secrets"
	"remit/internal/token"
)

// Coin returns the stack's token, from TOKEN_SYMBOL, TOKEN_DECIMALS and
// TOKEN_ADDRESS.
func Coin(env *boot.Env) token.Token {
	return token.Token{
		Symbol:   env.String("TOKEN_SYMBOL"),
		Decimals: env.Int("TOKEN_DECIMALS"),
		Contract: boot.Parse(env, "TOKEN_ADDRESS", token.ParseAddress),
	}
}

// Over returns what build makes of the nodes of chain CHAIN_ID that the secret
// RPC_SECRET names, and makes again when it names others. Nothing is read yet:
// a function whose secret has no value starts, and says so when it is used.
func Over[T any](env *boot.Env, now func() time.Time, build func(chainID uint64, nodes chain.Nodes) T) *secrets.Made[T] {
	chainID := env.Uint64("CHAIN_ID")
	secret := secrets.Open(env.AWS, env.String("RPC_SECRET"), now)
	return secrets.Make(secret.Value, func(value []byte) (T, error) {
		nodes, err := open(value, chainID)
		if err != nil {
			var none T
			return none, err
		}
		return build(chainID, nodes), nil
	})
}

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

// ParseGwei reads a whole number of gwei as an amount of wei.
func ParseGwei(s string) (token.Amount, error) {
	gwei, err := strconv.ParseUint(s, 10, 63)
	if err != nil {
		return token.Amount{}, fmt.Errorf("%q is not a number of gwei", s)
	}
	return token.ParseAmount(strconv.FormatUint(gwei, 10) + "000000000")
}

// Stale logs that wallet keys of an earlier secret are in use.
func Stale(err error) { slog.Error("using the wallet keys read before", "err", err) }
