package boot

import (
	"context"

	"github.com/remit-payouts/remit/internal/deployment/chains"
	"github.com/remit-payouts/remit/internal/deployment/stack"
)

// Assets returns a reader of the stack's assets: the one of the environment.
func Assets(env *Env) func(context.Context) (stack.Assets, error) {
	config, err := chains.Read(coin(env))
	env.Refuse(err)
	all := stack.Assets{{ChainID: config.ChainID, Token: config.Token, Network: config.Network}}
	return func(context.Context) (stack.Assets, error) { return all, nil }
}
