// Command get-balance serves GET /balance/{address} and GET /wallets.
package main

import (
	"context"

	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/aws/apienv"
	"github.com/remit-payouts/remit/internal/aws/chainenv"
	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
)

func main() { apienv.HTTP(wire) }

func wire(env apienv.Env) httpapi.Endpoint {
	assets, chains := env.Assets(), chainenv.Open(env.Env)
	nodes := func(ctx context.Context, c token.Coin) (chain.Nodes, error) {
		return chains.Of(stack.Config{ChainID: c.ChainID}).Nodes(ctx)
	}
	return httpapi.GetBalance(assets, nodes).With(httpapi.ListWallets(assets, nodes, env.Payments()))
}
