package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/aws/aws-lambda-go/lambdacontext"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"remit/internal/boot"
	"remit/internal/chain"
	"remit/internal/dynamo"
	"remit/internal/emf"
	"remit/internal/emf/settled"
	"remit/internal/keyring"
	"remit/internal/queue"
	"remit/internal/rail"
	"remit/internal/secrets"
	"remit/internal/settlement"
	"remit/internal/token"
	"remit/internal/webhook"
)

const (
	reservationAge = 45 * time.Second // send-payment's timeout is 29 s
	bumpAfter      = 3 * time.Minute
	duePage        = 500 // due webhooks that one run queues at most
)

// configOf is what the stack decided, but for the chain's id.
func configOf(env *boot.Env) settlement.Config {
	return settlement.Config{
		Token:            rail.Coin(env),
		Window:           env.Uint64("NONCE_WINDOW"),
		FeeLimit:         boot.Parse(env, "MAX_FEE_CAP_GWEI", rail.ParseGwei),
		ConfirmationRule: boot.Parse(env, "CONFIRMATION_RULE", chain.ParseConfirmationRule),
		BlockTime:        env.Duration("BLOCK_TIME"),
		ReservationAge:   reservationAge,
		BumpAfter:        bumpAfter,
	}
}

// outlets are where events go.
type outlets struct {
	webhooks *dynamo.Webhooks
	jobs     *queue.Jobs
	meter    *emf.Meter
}

func outletsOf(env *boot.Env) outlets {
	return outlets{
		webhooks: dynamo.NewWebhooks(dynamodb.NewFromConfig(env.AWS), env.String("WEBHOOKS_TABLE")),
		jobs:     queue.NewJobs(sqs.NewFromConfig(env.AWS), env.String("WEBHOOK_QUEUE_URL")),
	}
}

// partsOf is what the function works with, but for the nodes.
func partsOf(env *boot.Env, o outlets) settlement.Parts {
	payments := dynamo.NewPayments(dynamodb.NewFromConfig(env.AWS), env.String("PAYMENTS_TABLE"))
	wallets := secrets.Open(env.AWS, env.String("WALLET_SECRET"), time.Now)
	return settlement.Parts{
		Store: payments,
		Keys:   keyring.New(wallets.Value, rail.Stale),
		Events: webhook.NewPublisher(o.webhooks, o.jobs),
		Log:    slog.Default(), Now: time.Now, Wait: wait,
	}
}

// over returns the settler for given nodes.
func over(config settlement.Config, parts settlement.Parts) func(uint64, chain.Nodes) *settlement.Settler {
	return func(chainID uint64, nodes chain.Nodes) *settlement.Settler {
		config, parts := config, parts
		config.ChainID, parts.Nodes = chainID, nodes
		return settlement.New(config, parts)
	}
}

// A runner does what one run has to do.
type runner struct {
	outlets
	coin    token.Token
	settler *secrets.Made[*settlement.Settler]
}

// run queues the webhooks that are due, then settles. Neither waits for the
// other to be well.
func (r runner) run(ctx context.Context) error {
	_, pushErr := webhook.NewPusher(r.webhooks, r.jobs, r.meter).PushDue(ctx, time.Now(), duePage)
	return errors.Join(pushErr, r.settle(ctx), r.meter.Flush())
}

func (r runner) settle(ctx context.Context) error {
	settler, err := r.settler.Get(ctx)
	if err != nil {
		return fmt.Errorf("finding nodes: %w", err)
	}
	by := "run"
	if lc, ok := lambdacontext.FromContext(ctx); ok {
		by = lc.AwsRequestID
	}
	report, err := settler.Run(ctx, by)
	settled.Add(r.meter, report, r.coin.Decimals)
	return err
}

// wait sleeps for d, or until ctx ends.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
