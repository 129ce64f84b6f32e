package boot

import (
	"context"

	"github.com/remit-payouts/remit/internal/deployment/chains"
	"github.com/remit-payouts/remit/internal/deployment/stack"
)

// Assets returns a reader of the stack's assets: the one of the environment.
func Assets(env *Env) func(context.Context) (stack.Assets, error) {
	config, err := chains.Read(map[string]string{
		"ChainId": env.String("CHAIN_ID"), "Network": env.Optional("NETWORK", ""), "TokenAddress": env.Optional("TOKEN_ADDRESS", ""),
		"TokenSymbol": env.Optional("TOKEN_SYMBOL", ""), "TokenDecimals": env.Optional("TOKEN_DECIMALS", ""),
	})
	env.Refuse(err)
	all := stack.Assets{{ChainID: config.ChainID, Token: config.Token, Network: config.Network}}
	return func(context.Context) (stack.Assets, error) { return all, nil }
}
