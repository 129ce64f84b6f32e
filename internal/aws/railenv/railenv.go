// Package railenv reads the rails of a stack from its tables, for functions that need no node.
package railenv

import (
	"context"

	"github.com/remit-payouts/remit/internal/aws/boot"
	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/deployment/chains"
	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/payments/store"
)

// Assets returns a reader of the stack's assets, at most settings.MaxAge old.
func Assets(env *boot.Env) func(context.Context) (stack.Assets, error) {
	payments := dynamo.OpenPayments(env.AWS, env.String("PAYMENTS_TABLE"))
	var cached settings.Cached[stack.Assets]
	return func(ctx context.Context) (stack.Assets, error) {
		return cached.Get(ctx, env.Now(), func(ctx context.Context) (stack.Assets, error) {
			rules, err := payments.Rules(ctx)
			return rules.Assets(), err
		})
	}
}

// Config returns how a rail's payments are made and settled in the mode MODE.
func Config(env *boot.Env) func(store.Rail) (stack.Config, error) {
	mode := env.String("MODE")
	return func(rail store.Rail) (stack.Config, error) { return chains.Read(mode, rail.Terms()) }
}
