// Command get-balance serves GET /balance/{address}.
package main

import (
	"crypto/rand"
	"time"

	"remit/internal/boot"
	"remit/internal/chain"
	"remit/internal/chainenv"
	"remit/internal/httpapi"
	"remit/internal/meterenv"
)

func main() { meterenv.HTTP(wire, time.Now) }

// wire names everything this function may touch. GetBalanceFunction in
// template.yaml is granted exactly this. The newest block counts: a balance is
// shown, and no decision depends on it.
func wire(env *boot.Env) httpapi.Endpoint {
	asset, network := chainenv.Asset(env)
	return httpapi.GetBalance(rand.Text, chainenv.Nodes(env, time.Now), asset, network, chain.ConfirmationRule{})
}
