// Command get-balance serves GET /balance/{address}.
package main

import (
	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/aws/boot"
	"github.com/remit-payouts/remit/internal/aws/chainenv"
	"github.com/remit-payouts/remit/internal/aws/meterenv"
	"github.com/remit-payouts/remit/internal/evm/chain"
)

func main() { meterenv.HTTP(wire) }

// The newest block counts: a balance is shown, and no decision depends on it.
func wire(env *boot.Env) httpapi.Endpoint {
	asset, network := chainenv.Asset(env)
	return httpapi.GetBalance(chainenv.Nodes(env), asset, network, chain.ConfirmationRule{})
}
