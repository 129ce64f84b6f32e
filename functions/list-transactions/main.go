// Command list-transactions serves GET /transactions.
package main

import (
	"crypto/rand"
	"time"

	"remit/internal/boot"
	"remit/internal/dynamo"
	"remit/internal/httpapi"
	"remit/internal/meterenv"
)

func main() { meterenv.HTTP(wire, time.Now) }

// wire names everything this function may touch. ListTransactionsFunction in
// template.yaml is granted exactly this.
func wire(env *boot.Env) httpapi.Endpoint {
	payments := dynamo.OpenPayments(env.AWS, env.String("PAYMENTS_TABLE"))
	return httpapi.ListTransactions(rand.Text, payments, payments)
}
