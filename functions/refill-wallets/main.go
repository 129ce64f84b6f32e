// Command refill-wallets has the funding wallet refill wallets that run low, once a minute.
// It reserves their payments, and the next run of check-receipts signs them: it has no key.
package main

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"

	"github.com/remit-payouts/remit/internal/aws/boot"
	"github.com/remit-payouts/remit/internal/aws/chainenv"
	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/aws/emf"
	"github.com/remit-payouts/remit/internal/payments/dispatch"
	"github.com/remit-payouts/remit/internal/payments/settlement"
)

func main() { boot.Schedule(wire) }

func wire(env *boot.Env) boot.Run {
	config, nodes := boot.Config(env), chainenv.Nodes(env)
	payments := dynamo.OpenPayments(env.AWS, env.String("PAYMENTS_TABLE"))
	meter := emf.New(os.Stdout, env.String("STACK"), env.Now)
	settler := settlement.New(config, settlement.Parts{
		Store: payments, Nodes: nodes, Log: slog.Default(), Now: env.Now,
		Refiller: dispatch.New(config, dispatch.Parts{Store: payments, Nodes: nodes, Log: slog.Default(), Now: env.Now, Draw: rand.IntN}),
	})
	return func(ctx context.Context, _ bool) error {
		report, err := settler.Refill(ctx)
		if n := report.Unfilled; n > 0 {
			meter.Add("RefillsRefused", emf.Count, float64(n))
		}
		return errors.Join(err, meter.Flush())
	}
}
