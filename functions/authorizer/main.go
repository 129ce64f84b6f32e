// Command authorizer tells API Gateway whose a presented key is.
package main

import (
	"context"

	"github.com/remit-payouts/remit/internal/aws/boot"
	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
)

func main() { boot.Start(wire, boot.Authorize) }

func wire(env *boot.Env) boot.Authenticate {
	env.Impatient()
	keys := dynamo.NewAPIKeys(dynamo.Client(env.AWS), env.String("API_KEYS_TABLE"))
	auth := &apikey.Authenticator{Keys: keys, Mode: boot.Parse(env, "MODE", apikey.ParseMode)}
	return func(ctx context.Context, presented string) (apikey.Principal, error) {
		return auth.Authenticate(ctx, presented, env.Now())
	}
}
