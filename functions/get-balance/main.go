// Command get-balance serves GET /balance/{address}.
package main

import (
	"context"

	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/aws/boot"
	"github.com/remit-payouts/remit/internal/aws/chainenv"
	"github.com/remit-payouts/remit/internal/aws/meterenv"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
)

func main() { meterenv.HTTP(wire) }

func wire(env *boot.Env) httpapi.Endpoint {
	nodes := chainenv.Nodes(env)
	return httpapi.GetBalance(boot.Assets(env), func(ctx context.Context, _ token.Coin) (chain.Nodes, error) { return nodes.Nodes(ctx) })
}
