// Command revoke-api-key serves POST /api-keys/{id}/revoke.
package main

import (
	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/aws/apienv"
)

func main() {
	apienv.HTTP(func(env apienv.Env) httpapi.Endpoint {
		return httpapi.RevokeAPIKey(env.Registry())
	})
}
