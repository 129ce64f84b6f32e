// Package dispatchenv reads from a function's environment what paying needs: the rules
// that a payment must keep, and the parts of a dispatcher. Only the functions that pay
// merchants' payments link it.
package dispatchenv

import (
	"crypto/rand"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"remit/internal/boot"
	"remit/internal/chainenv"
	"remit/internal/dispatch"
	"remit/internal/dynamo"
	"remit/internal/queue"
	"remit/internal/recipient"
	"remit/internal/stack"
	"remit/internal/token"
	"remit/internal/walletenv"
)

// New returns the dispatcher of the environment. draw picks a number below its argument,
// by which requests spread over wallets. The function may have set rules of its own in
// config, which is Config's.
func New(env *boot.Env, config stack.Config, now func() time.Time, draw func(n int) int) *dispatch.Dispatcher {
	db := dynamodb.NewFromConfig(env.AWS)
	return dispatch.New(config, dispatch.Parts{
		Store: dynamo.NewPayments(db, env.String("PAYMENTS_TABLE")),
		Book:  recipient.NewBook(dynamo.NewAPIKeys(db, env.String("API_KEYS_TABLE")), 0, now), // no entry is made here
		Keys:  walletenv.Keys(env, now),
		Nodes: chainenv.Nodes(env, config.TreasuryAllowance, now), Log: slog.Default(), Now: now, Random: rand.Reader, Draw: draw,
		Hints: queue.NewHints(sqs.NewFromConfig(env.AWS), env.String("SETTLE_QUEUE_URL"), config.BlockTime),
	})
}

// Config returns the rules of the environment for payments that merchants ask for:
// chainenv.Config's, and NETWORK, MEMO, SANCTIONS_LIST, REQUIRE_IDEMPOTENCY_KEY,
// DAILY_LIMIT, AMOUNT_MINIMUM and AMOUNT_MAXIMUM. Batches are not enabled in it.
func Config(env *boot.Env) stack.Config {
	config := chainenv.Config(env)
	config.Network, config.MemoOff, config.Sanctions = env.String("NETWORK"), env.String("MEMO") == "off", chainenv.Sanctions(env)
	config.RequireKey, config.Daily = env.String("REQUIRE_IDEMPOTENCY_KEY") == "true", boot.Parse(env, "DAILY_LIMIT", token.ParseAmount)
	config.Minimum, config.Maximum = boot.Parse(env, "AMOUNT_MINIMUM", token.ParseAmount), boot.Parse(env, "AMOUNT_MAXIMUM", token.ParseAmount)
	return config
}
