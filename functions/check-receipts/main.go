// Command check-receipts takes payments from broadcast to final, and queues the webhooks whose time has come. It runs
// every minute, and soon after send-payment hints that a payment was made.
package main

import (
	"log/slog"

	"github.com/remit-payouts/remit/internal/aws/boot"
	"github.com/remit-payouts/remit/internal/aws/chainenv"
	"github.com/remit-payouts/remit/internal/aws/eventenv"
	"github.com/remit-payouts/remit/internal/aws/signenv"
	"github.com/remit-payouts/remit/internal/aws/tableenv"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/settlement"
)

func main() { boot.Start(wire, boot.Starts) }

func wire(started *boot.Env) boot.Run {
	env := tableenv.Env{Env: started}
	meter, nodes := env.Meter(), chainenv.Open(started)
	pusher := &webhook.Pusher{Store: env.Webhooks(), Queue: eventenv.Jobs(env), Meter: meter}
	r := runner{nodes: nodes, meter: meter, now: env.Now, pusher: pusher}
	r.rails = settlement.NewRails(settlement.Wiring{Config: env.Config(), Nodes: nodes.Of}, settlement.Parts{
		Store: env.Payments(), Keys: signenv.Keys(env), Events: eventenv.Publisher(env), Chains: nodes.Chains,
		Log: slog.Default(), Now: env.Now,
	})
	return r.run
}
