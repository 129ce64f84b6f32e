// Command get-transaction serves GET /transaction/{tx_hash}.
package main

import (
	"crypto/rand"
	"time"

	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/aws/boot"
	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/aws/meterenv"
)

func main() { meterenv.HTTP(wire, time.Now) }

// wire names everything this function may touch. GetTransactionFunction in
// template.yaml is granted exactly this.
func wire(env *boot.Env) httpapi.Endpoint {
	payments := dynamo.OpenPayments(env.AWS, env.String("PAYMENTS_TABLE"))
	return httpapi.GetTransaction(rand.Text, payments, payments)
}
