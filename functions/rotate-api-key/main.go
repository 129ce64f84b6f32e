// Command rotate-api-key serves POST /api-keys/{id}/rotate.
package main

import (
	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/aws/apienv"
	"github.com/remit-payouts/remit/internal/aws/eventenv"
)

func main() {
	apienv.HTTP(func(env apienv.Env) httpapi.Endpoint {
		return httpapi.RotateAPIKey(env.Registry(), eventenv.Publisher(env))
	})
}
