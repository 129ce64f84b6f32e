// Command get-balance serves GET /balance/{address} and GET /wallets.
package main

import (
	"context"

	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/aws/boot"
	"github.com/remit-payouts/remit/internal/aws/chainenv"
	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/aws/meterenv"
	"github.com/remit-payouts/remit/internal/aws/railenv"
	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
)

func main() { meterenv.HTTP(wire) }

func wire(env *boot.Env) httpapi.Endpoint {
	assets, chains := railenv.Assets(env), chainenv.Open(env)
	nodes := func(ctx context.Context, c token.Coin) (chain.Nodes, error) {
		return chains.Of(stack.Config{ChainID: c.ChainID}).Nodes(ctx)
	}
	return httpapi.GetBalance(assets, nodes).
		With(httpapi.ListWallets(assets, nodes, dynamo.OpenPayments(env.AWS, env.String("PAYMENTS_TABLE"))))
}
