// Command get-transaction serves GET /transaction/{tx_hash}.
package main

import (
	"crypto/rand"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"remit/internal/boot"
	"remit/internal/dynamo"
	"remit/internal/httpapi"
	"remit/internal/meterenv"
)

func main() { boot.HTTP(wire) }

// wire names everything this function may touch. GetTransactionFunction in
// template.yaml is granted exactly this.
func wire(env *boot.Env) http.Handler {
	payments := dynamo.NewPayments(dynamodb.NewFromConfig(env.AWS), env.String("PAYMENTS_TABLE"))
	return meterenv.Refusals(env, httpapi.GetTransaction(rand.Text, payments))
}
