package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"remit/internal/boot"
	"remit/internal/chain"
	"remit/internal/dispatch"
	"remit/internal/dynamo"
	"remit/internal/keyring"
	"remit/internal/payment"
	"remit/internal/queue"
	"remit/internal/rail"
	"remit/internal/secrets"
	"remit/internal/token"
)

// configOf is what the stack decided, but for the chain's id.
func configOf(env *boot.Env) dispatch.Config {
	return dispatch.Config{
		Token:            rail.Coin(env),
		Network:          env.String("NETWORK"),
		Window:           env.Uint64("NONCE_WINDOW"),
		Minimum:          boot.Parse(env, "AMOUNT_MINIMUM", token.ParseAmount),
		Maximum:          boot.Parse(env, "AMOUNT_MAXIMUM", token.ParseAmount),
		Daily:            boot.Parse(env, "DAILY_LIMIT", token.ParseAmount),
		FeeLimit:         boot.Parse(env, "MAX_FEE_CAP_GWEI", rail.ParseGwei),
		BlockTime:        env.Duration("BLOCK_TIME"),
		ConfirmationRule: boot.Parse(env, "CONFIRMATION_RULE", chain.ParseConfirmationRule),
	}
}

// partsOf is what the function works with, but for the nodes.
func partsOf(env *boot.Env) dispatch.Parts {
	payments := dynamo.NewPayments(dynamodb.NewFromConfig(env.AWS), env.String("PAYMENTS_TABLE"))
	wallets := secrets.Open(env.AWS, env.String("WALLET_SECRET"), time.Now)
	return dispatch.Parts{
		Store: payments,
		Keys:  keyring.New(wallets.Value, rail.Stale),
		Hints: queue.NewHints(sqs.NewFromConfig(env.AWS), env.String("SETTLE_QUEUE_URL"), env.Duration("BLOCK_TIME")),
		Log:   slog.Default(), Now: time.Now, Random: rand.Reader, Draw: mathrand.IntN,
	}
}

// over returns the dispatcher for given nodes.
func over(config dispatch.Config, parts dispatch.Parts) func(uint64, chain.Nodes) *dispatch.Dispatcher {
	return func(chainID uint64, nodes chain.Nodes) *dispatch.Dispatcher {
		config, parts := config, parts
		config.ChainID, parts.Nodes = chainID, nodes
		return dispatch.New(config, parts)
	}
}

// A payer sends payments over the nodes that the RPC secret names at the
// moment. It is the function's httpapi.Payer.
type payer struct {
	dispatcher *secrets.Made[*dispatch.Dispatcher]
}

// Send is dispatch.Dispatcher's. Without nodes nothing is started.
func (p payer) Send(ctx context.Context, r payment.Request) (dispatch.Result, error) {
	d, err := p.dispatcher.Get(ctx)
	if err != nil {
		return dispatch.Result{}, errors.Join(dispatch.ErrUnavailable, fmt.Errorf("finding nodes: %w", err))
	}
	return d.Send(ctx, r)
}
