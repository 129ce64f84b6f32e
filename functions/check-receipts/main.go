// Command check-receipts takes payments from broadcast to final, and queues the webhooks whose time has come. It runs
// every minute, and soon after send-payment hints that a payment was made.
package main

import (
	"log/slog"
	"os"

	"github.com/remit-payouts/remit/internal/aws/boot"
	"github.com/remit-payouts/remit/internal/aws/chainenv"
	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/aws/emf"
	"github.com/remit-payouts/remit/internal/aws/eventenv"
	"github.com/remit-payouts/remit/internal/aws/queue"
	"github.com/remit-payouts/remit/internal/aws/railenv"
	"github.com/remit-payouts/remit/internal/aws/walletenv"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/settlement"
)

func main() { boot.Schedule(wire) }

func wire(env *boot.Env) boot.Run {
	webhooks := dynamo.OpenWebhooks(env.AWS, env.String("WEBHOOKS_TABLE"))
	jobs := queue.OpenJobs(env.AWS, env.String("WEBHOOK_QUEUE_URL"))
	meter := emf.New(os.Stdout, env.String("STACK"), env.Now)
	nodes := chainenv.Open(env)
	r := runner{nodes: nodes, meter: meter, now: env.Now, pusher: webhook.NewPusher(webhooks, jobs, meter)}
	r.rails = settlement.NewRails(settlement.Wiring{Config: railenv.Config(env), Nodes: nodes.Of}, settlement.Parts{
		Store: dynamo.OpenPayments(env.AWS, env.String("PAYMENTS_TABLE")), Keys: walletenv.Keys(env),
		Events: eventenv.Publisher(env), Chains: nodes.Chains, Log: slog.Default(), Now: env.Now,
	})
	return r.run
}
