// Command list-api-keys serves GET /api-keys and GET /api-keys/self.
package main

import (
	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/aws/apienv"
)

func main() { apienv.HTTP(wire) }

func wire(env apienv.Env) httpapi.Endpoint {
	registry := env.Registry()
	return httpapi.ListAPIKeys(registry).With(httpapi.GetOwnAPIKey(registry, env.Payments(), env.Now))
}
