// Command delete-webhook serves POST /webhooks/{id}/delete.
package main

import (
	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/aws/apienv"
)

func main() {
	apienv.HTTP(func(env apienv.Env) httpapi.Endpoint {
		return httpapi.DeleteWebhook(env.Endpoints(env.Webhooks(), nil))
	})
}
