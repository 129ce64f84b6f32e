// Command create-api-key serves POST /create-api-key.
package main

import (
	"crypto/rand"
	"log/slog"
	"time"

	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/aws/boot"
	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/aws/meterenv"
	"github.com/remit-payouts/remit/internal/evm/settings"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
)

func main() { meterenv.HTTP(wire, time.Now) }

func wire(env *boot.Env) httpapi.Endpoint {
	boot.Closed(env)
	keys := dynamo.OpenAPIKeys(env.AWS, env.String("API_KEYS_TABLE"))
	mode := boot.Parse(env, "MODE", apikey.ParseMode)
	current := settings.CachedKeys(keys, mode == apikey.Live, time.Now, slog.Default())
	return httpapi.CreateAPIKey(apikey.NewRegistry(keys, mode, time.Now, rand.Reader), current)
}
