// Command get-transaction serves GET /transaction/{tx_hash}.
package main

import (
	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/aws/boot"
	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/aws/meterenv"
)

func main() { meterenv.HTTP(wire) }

func wire(env *boot.Env) httpapi.Endpoint {
	return httpapi.GetTransaction(dynamo.OpenPayments(env.AWS, env.String("PAYMENTS_TABLE")))
}
