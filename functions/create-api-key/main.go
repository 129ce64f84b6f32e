// Command create-api-key serves POST /create-api-key.
package main

import (
	"net/http"

	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/aws/apienv"
	"github.com/remit-payouts/remit/internal/aws/boot"
)

func main() { boot.Start(wire, boot.Gateway) }

func wire(env *boot.Env) http.Handler {
	registry, public := apienv.Env{Env: env}.Registry(), boot.Closed(env).PublicKeys()
	return boot.ForOperators(
		apienv.Metered(env, httpapi.CreateAPIKey(registry, true)),
		apienv.Metered(env, httpapi.CreateAPIKey(registry, public)),
	)
}
