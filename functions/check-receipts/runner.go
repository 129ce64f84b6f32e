package main

import (
	"context"
	"errors"
	"time"

	"github.com/aws/aws-lambda-go/lambdacontext"

	"remit/internal/chain"
	"remit/internal/emf"
	"remit/internal/emf/runreport"
	"remit/internal/settlement"
	"remit/internal/webhook"
)

// duePage is how many due webhooks one run queues at most.
const duePage = 1000

// A runner does the work of one invocation.
type runner struct {
	settler  *settlement.Settler
	pusher   *webhook.Pusher
	nodes    chain.Provider
	meter    *emf.Meter
	decimals int    // of the token
	version  string // of the function, as canaries name it
}

// run queues the webhooks that are due, then settles. An error of the one does
// not stop the other.
func (r runner) run(ctx context.Context) error {
	_, pushErr := r.pusher.PushDue(ctx, time.Now(), duePage)
	by := "run"
	if lc, ok := lambdacontext.FromContext(ctx); ok {
		by = lc.AwsRequestID
	}
	report, err := r.settler.Run(ctx, by)
	runreport.Add(r.meter, report, r.decimals, r.version)
	if nodes, err := r.nodes.Nodes(ctx); err == nil { // or Run has said that there are none
		runreport.AddNodes(r.meter, nodes.Health())
	}
	return errors.Join(pushErr, err, r.meter.Flush())
}
