// Command check-receipts takes payments from broadcast to final. It runs every
// minute, and soon after send-payment hints that there is something to do.
package main

import (
	"os"
	"time"

	"remit/internal/boot"
	"remit/internal/emf"
	"remit/internal/rail"
)

func main() { boot.Schedule(wire) }

// wire names everything this function may touch. CheckReceiptsFunction in
// template.yaml is granted exactly this.
func wire(env *boot.Env) boot.Run {
	config, outlets := configOf(env), outletsOf(env)
	outlets.meter = emf.New(os.Stdout, env.String("STACK"), time.Now)
	r := runner{outlets, config.Token, rail.Over(env, time.Now, over(config, partsOf(env, outlets)))}
	return r.run
}
