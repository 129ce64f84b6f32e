// Command send-payment serves POST /send-payment.
package main

import (
	"crypto/rand"
	mathrand "math/rand/v2"
	"time"

	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/aws/boot"
	"github.com/remit-payouts/remit/internal/aws/dispatchenv"
	"github.com/remit-payouts/remit/internal/aws/meterenv"
)

func main() { meterenv.HTTP(wire, time.Now) }

// wire names everything this function may touch. SendPaymentFunction in
// template.yaml is granted exactly this.
func wire(env *boot.Env) httpapi.Endpoint {
	boot.Closed(env)
	dispatcher := dispatchenv.New(env, time.Now, mathrand.IntN)
	return httpapi.SendPayment(rand.Text, dispatcher, dispatcher.Store, dispatcher.Token)
}
