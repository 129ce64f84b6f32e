// Command send-payments serves POST /send-payments.
package main

import (
	"math/rand/v2"

	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/aws/boot"
	"github.com/remit-payouts/remit/internal/aws/dispatchenv"
	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/aws/meterenv"
)

func main() { meterenv.HTTP(wire) }

func wire(env *boot.Env) httpapi.Endpoint {
	boot.Closed(env)
	dispatcher := dispatchenv.New(env, rand.IntN)
	return httpapi.SendPayments(dispatchenv.Batches(env, dispatcher), dispatcher.Store, boot.Assets(env)).
		Current(dynamo.OpenAPIKeys(env.AWS, env.String("API_KEYS_TABLE")), env.Now)
}
