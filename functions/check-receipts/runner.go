package main

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/remit-payouts/remit/internal/aws/boot"
	"github.com/remit-payouts/remit/internal/aws/emf"
	"github.com/remit-payouts/remit/internal/aws/emf/runreport"
	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/settlement"
)

// duePage is how many due webhooks one run queues at most.
const duePage = 1000

type runner struct {
	settler *settlement.Settler
	pusher  *webhook.Pusher
	nodes   chain.Provider
	meter   *emf.Meter
	now     func() time.Time
	of      runreport.Of
}

// measure returns the units for balances of the token.
func measure(env *boot.Env, c stack.Config) runreport.Of {
	low, err := runreport.TokenLow(env.Optional("TOKEN_LOW", ""), c.Live)
	env.Refuse(err)
	return runreport.Of{Decimals: c.Token.Decimals, TokenGas: c.GasUnit > 0, TokenLow: low,
		GasLowGwei: boot.Parse(env, "GAS_LOW_GWEI", func(s string) (float64, error) { return strconv.ParseFloat(s, 64) })}
}

// run queues the webhooks that are due, then settles. An error of the one does not stop the other. One that the
// schedule started, and that ends well, is metered: hints go on arriving while the schedule is dead.
func (r runner) run(ctx context.Context, hint bool) error {
	_, pushErr := r.pusher.PushDue(ctx, r.now(), duePage)
	by := "run"
	if lc, ok := lambdacontext.FromContext(ctx); ok {
		by = lc.AwsRequestID
	}
	report, err := r.settler.Run(ctx, by)
	runreport.Add(r.meter, report, r.of)
	if nodes, err := r.nodes.Nodes(ctx); err == nil { // or Run has said that there are none
		runreport.AddNodes(r.meter, nodes.Health())
	}
	if err = errors.Join(pushErr, err); err == nil && !hint {
		r.meter.Add("ScheduledRuns", emf.Count, 1)
	}
	return errors.Join(err, r.meter.Flush())
}
