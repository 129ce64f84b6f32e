package main

import (
	"context"
	"errors"
	"time"

	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/remit-payouts/remit/internal/aws/chainenv"
	"github.com/remit-payouts/remit/internal/aws/emf"
	"github.com/remit-payouts/remit/internal/aws/emf/runreport"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/settlement"
)

// duePage is how many due webhooks one run queues at most.
const duePage = 1000

type runner struct {
	rails  *settlement.Rails
	pusher *webhook.Pusher
	nodes  chainenv.Nodes
	meter  *emf.Meter
	now    func() time.Time
}

// run queues the webhooks that are due, then settles. An error of the one does not stop the other. One that the
// schedule started, and that ends well, is metered: hints go on arriving while the schedule is dead.
func (r runner) run(ctx context.Context, hint bool) error {
	pushErr := r.pusher.PushDue(ctx, r.now(), duePage)
	by := "run"
	if lc, ok := lambdacontext.FromContext(ctx); ok {
		by = lc.AwsRequestID
	}
	accounts, err := r.rails.Run(ctx, by)
	metered := map[uint64]bool{}
	for _, a := range accounts {
		if a.ChainID == 0 { // its configuration cannot be read
			continue
		}
		runreport.Add(r.meter, a)
		if nodes, err := r.nodes.Of(a.Config).Nodes(ctx); err == nil && !metered[a.ChainID] { // or Run has said so
			runreport.AddNodes(r.meter, nodes.Health())
			metered[a.ChainID] = true
		}
	}
	if err = errors.Join(pushErr, err); err == nil && !hint {
		r.meter.Add("ScheduledRuns", 1)
	}
	return errors.Join(err, r.meter.Flush())
}
