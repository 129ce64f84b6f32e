// Command create-api-key serves POST /create-api-key.
package main

import (
	"crypto/rand"
	"net/http"

	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/aws/boot"
	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/aws/meterenv"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
)

func main() { boot.HTTP(wire) }

func wire(env *boot.Env) http.Handler {
	public := boot.Closed(env).PublicKeys()
	keys := dynamo.OpenAPIKeys(env.AWS, env.String("API_KEYS_TABLE"))
	registry := apikey.NewRegistry(keys, boot.Parse(env, "MODE", apikey.ParseMode), env.Now, rand.Reader)
	return boot.ForOperators(
		meterenv.Refusals(env, httpapi.CreateAPIKey(registry, true)),
		meterenv.Refusals(env, httpapi.CreateAPIKey(registry, public)),
	)
}
