// Command issue-api-key serves POST /api-keys.
package main

import (
	"crypto/rand"

	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/aws/boot"
	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/aws/eventenv"
	"github.com/remit-payouts/remit/internal/aws/meterenv"
	"github.com/remit-payouts/remit/internal/aws/railenv"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
)

func main() { meterenv.HTTP(wire) }

func wire(env *boot.Env) httpapi.Endpoint {
	keys := dynamo.OpenAPIKeys(env.AWS, env.String("API_KEYS_TABLE"))
	registry := apikey.NewRegistry(keys, boot.Parse(env, "MODE", apikey.ParseMode), env.Now, rand.Reader)
	return httpapi.IssueAPIKey(registry, eventenv.Publisher(env), railenv.Assets(env))
}
