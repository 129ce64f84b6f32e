// Command release-proposals makes the payments of due proposals, and stores which have expired, once a minute.
package main

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"

	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/aws/boot"
	"github.com/remit-payouts/remit/internal/aws/dispatchenv"
	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/aws/emf"
	"github.com/remit-payouts/remit/internal/aws/eventenv"
	"github.com/remit-payouts/remit/internal/payments/dispatch"
)

func main() { boot.Schedule(wire) }

func wire(env *boot.Env) boot.Run {
	boot.Closed(env)
	meter := emf.New(os.Stdout, env.String("STACK"), env.Now)
	proposals := &dispatch.Proposals{
		Rails:   dispatchenv.New(env, rand.IntN),
		Events:  eventenv.Publisher(env),
		Terms:   dynamo.OpenAPIKeys(env.AWS, env.String("API_KEYS_TABLE")).Terms,
		Explain: httpapi.Explain,
	}
	return func(ctx context.Context, _ bool) error {
		released, oldest, err := proposals.Run(ctx)
		if released > 0 {
			slog.InfoContext(ctx, "proposals released", "number", released)
		}
		meter.Add("OldestProposal", oldest.Seconds())
		return errors.Join(err, meter.Flush())
	}
}
