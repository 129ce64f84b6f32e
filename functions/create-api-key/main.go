// Command create-api-key serves POST /create-api-key.
package main

import (
	"crypto/rand"
	"log/slog"
	"net/http"

	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/aws/boot"
	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/aws/meterenv"
	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
)

func main() { boot.HTTP(wire) }

func wire(env *boot.Env) http.Handler {
	boot.Closed(env)
	keys := dynamo.OpenAPIKeys(env.AWS, env.String("API_KEYS_TABLE"))
	mode := boot.Parse(env, "MODE", apikey.ParseMode)
	registry := apikey.NewRegistry(keys, mode, env.Now, rand.Reader)
	current := settings.CachedKeys(keys, mode == apikey.Live, env.Now, slog.Default())
	return boot.ForOperators(
		meterenv.Refusals(env, httpapi.CreateAPIKey(registry, nil)),
		meterenv.Refusals(env, httpapi.CreateAPIKey(registry, current)),
	)
}
