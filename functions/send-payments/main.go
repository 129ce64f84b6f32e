// Command send-payments serves POST /send-payments.
package main

import (
	"crypto/rand"
	mathrand "math/rand/v2"
	"time"

	"remit/internal/boot"
	"remit/internal/dispatchenv"
	"remit/internal/httpapi"
	"remit/internal/meterenv"
)

func main() { meterenv.HTTP(wire, time.Now) }

// wire names everything this function may touch. SendPaymentsFunction in
// template.yaml is granted exactly this.
func wire(env *boot.Env) httpapi.Endpoint {
	boot.Closed(env)
	dispatcher := dispatchenv.New(env, time.Now, mathrand.IntN)
	return httpapi.SendPayments(rand.Text, dispatchenv.Batches(env, dispatcher, time.Now), dispatcher.Token)
}
