// Command list-transactions serves GET /transactions and GET /assets.
package main

import (
	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/aws/boot"
	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/aws/meterenv"
)

func main() { meterenv.HTTP(wire) }

func wire(env *boot.Env) httpapi.Endpoint {
	assets := boot.Assets(env)
	return httpapi.ListTransactions(dynamo.OpenPayments(env.AWS, env.String("PAYMENTS_TABLE")), assets).With(httpapi.ListAssets(assets))
}
