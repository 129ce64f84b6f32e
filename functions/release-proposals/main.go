// Command release-proposals makes the payments of due proposals, and stores which have expired, once a minute.
package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/aws/boot"
	"github.com/remit-payouts/remit/internal/aws/eventenv"
	"github.com/remit-payouts/remit/internal/aws/signenv"
	"github.com/remit-payouts/remit/internal/aws/tableenv"
	"github.com/remit-payouts/remit/internal/payments/dispatch"
)

func main() { boot.Start(wire, boot.Starts) }

func wire(started *boot.Env) boot.Run {
	boot.Closed(started)
	env := tableenv.Env{Env: started}
	meter := env.Meter()
	proposals := &dispatch.Proposals{
		Rails:   signenv.Dispatchers(env),
		Events:  eventenv.Publisher(env),
		Terms:   env.Keys().Terms,
		Explain: httpapi.Explain,
	}
	return func(ctx context.Context, _ bool) error {
		released, oldest, err := proposals.Run(ctx)
		if released > 0 {
			slog.InfoContext(ctx, "proposals released", "number", released)
		}
		if err == nil { // the silence of failed runs rings ReleasesStoppedAlarm
			meter.Add("OldestProposal", oldest.Seconds())
		}
		return errors.Join(err, meter.Flush())
	}
}
