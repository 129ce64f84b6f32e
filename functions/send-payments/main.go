// Command send-payments serves POST /send-payments.
package main

import (
	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/aws/apienv"
	"github.com/remit-payouts/remit/internal/aws/boot"
	"github.com/remit-payouts/remit/internal/aws/signenv"
)

func main() { apienv.HTTP(wire) }

func wire(env apienv.Env) httpapi.Endpoint {
	boot.Closed(env.Env)
	dispatcher := signenv.Batches(env)
	return httpapi.SendPayments(dispatcher, dispatcher.Store, dispatcher.Assets).Current(env.Keys(), env.Now)
}
