// Command update-webhook serves POST /webhooks/{id}.
package main

import (
	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/aws/apienv"
)

func main() {
	apienv.HTTP(func(env apienv.Env) httpapi.Endpoint {
		return httpapi.UpdateWebhook(env.Endpoints(env.Webhooks(), env.Sender()))
	})
}
