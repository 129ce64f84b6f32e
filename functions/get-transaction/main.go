// Command get-transaction serves GET /transaction/{tx_hash}.
package main

import (
	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/aws/boot"
	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/aws/meterenv"
)

func main() { meterenv.HTTP(wire) }

// wire names everything that GetTransactionFunction in template.yaml is granted.
func wire(env *boot.Env) httpapi.Endpoint {
	payments := dynamo.OpenPayments(env.AWS, env.String("PAYMENTS_TABLE"))
	return httpapi.GetTransaction(payments)
}
