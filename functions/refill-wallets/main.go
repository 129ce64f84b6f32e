// Command refill-wallets has the funding wallet refill wallets that run low, once a minute.
// It reserves their payments, and the next run of check-receipts signs them: it has no key.
package main

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"

	"github.com/remit-payouts/remit/internal/aws/boot"
	"github.com/remit-payouts/remit/internal/aws/chainenv"
	"github.com/remit-payouts/remit/internal/aws/tableenv"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/dispatch"
	"github.com/remit-payouts/remit/internal/payments/settlement"
)

func main() { boot.Start(wire, boot.Starts) }

func wire(started *boot.Env) boot.Run {
	env, nodes := tableenv.Env{Env: started}, chainenv.Open(started)
	payments, config := env.Payments(), env.Config()
	meter := env.Meter()
	dispatchers := dispatch.NewRails(dispatch.Wiring{Config: config, Nodes: nodes.Of, Chains: nodes.Chains},
		dispatch.Parts{Store: payments, Log: slog.Default(), Now: env.Now, Draw: rand.IntN})
	rails := settlement.NewRails(settlement.Wiring{Config: config, Nodes: nodes.Of,
		Refiller: func(ctx context.Context, c token.Coin) (settlement.Refiller, error) { return dispatchers.Of(ctx, c) },
	}, settlement.Parts{Store: payments, Log: slog.Default(), Now: env.Now})
	return func(ctx context.Context, _ bool) error {
		accounts, err := rails.Refill(ctx)
		for _, a := range accounts {
			if n := a.Report.Unfilled; n > 0 {
				meter.Add("RefillsRefused", float64(n))
			}
		}
		return errors.Join(err, meter.Flush())
	}
}
