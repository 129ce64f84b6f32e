// Command get-balance serves GET /balance/{address}.
package main

import (
	"context"

	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/aws/boot"
	"github.com/remit-payouts/remit/internal/aws/chainenv"
	"github.com/remit-payouts/remit/internal/aws/meterenv"
	"github.com/remit-payouts/remit/internal/aws/railenv"
	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
)

func main() { meterenv.HTTP(wire) }

func wire(env *boot.Env) httpapi.Endpoint {
	assets, nodes := railenv.Assets(env), chainenv.Open(env)
	return httpapi.GetBalance(assets, func(ctx context.Context, c token.Coin) (chain.Nodes, error) {
		all, err := assets(ctx)
		if err != nil {
			return nil, err
		}
		return nodes.Of(stack.Config{ChainID: c.ChainID, Further: len(all) == 0 || c.ChainID != all[0].ChainID}).Nodes(ctx)
	})
}
