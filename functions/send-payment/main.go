// Command send-payment serves POST /send-payment.
package main

import (
	"crypto/rand"
	"net/http"
	"time"

	"remit/internal/boot"
	"remit/internal/httpapi"
	"remit/internal/rail"
)

func main() { boot.HTTP(wire) }

// wire names everything this function may touch. SendPaymentFunction in
// template.yaml is granted exactly this.
func wire(env *boot.Env) http.Handler {
	config, parts := configOf(env), partsOf(env)
	p := payer{rail.Over(env, time.Now, over(config, parts))}
	return httpapi.SendPayment(rand.Text, p, config.Token)
}
