// Command list-deliveries serves GET /webhooks/{id}/deliveries.
package main

import (
	"crypto/rand"

	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/aws/apienv"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
)

func main() {
	apienv.HTTP(func(env apienv.Env) httpapi.Endpoint {
		return httpapi.ListDeliveries(&webhook.Log{Store: env.Webhooks(), Now: env.Now, Random: rand.Reader}) // nothing is sent
	})
}
