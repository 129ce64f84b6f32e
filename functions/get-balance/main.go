// Command get-balance serves GET /balance/{address}.
package main

import (
	"net/http"
	"time"

	"remit/internal/boot"
	"remit/internal/rail"
)

func main() { boot.HTTP(wire) }

// wire names everything this function may touch. GetBalanceFunction in
// template.yaml is granted exactly this.
func wire(env *boot.Env) http.Handler {
	b := balance{network: env.String("NETWORK"), coin: rail.Coin(env)}
	b.handler = rail.Over(env, time.Now, b.over)
	return b
}
