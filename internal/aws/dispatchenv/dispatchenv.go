// Package dispatchenv reads a dispatcher's parts from the environment. Only functions that pay merchants link it.
package dispatchenv

import (
	"crypto/rand"
	"log/slog"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/remit-payouts/remit/internal/aws/boot"
	"github.com/remit-payouts/remit/internal/aws/chainenv"
	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/aws/queue"
	"github.com/remit-payouts/remit/internal/aws/walletenv"
	"github.com/remit-payouts/remit/internal/merchants/recipient"
	"github.com/remit-payouts/remit/internal/payments/dispatch"
)

// Batches returns the dispatcher for the function of batches, of whose places one merchant
// takes no more than half: of the reserved concurrency in BATCH_PLACES, 0 for none.
func Batches(env *boot.Env, d *dispatch.Dispatcher) dispatch.Turnstile {
	places := dynamo.OpenPayments(env.AWS, env.String("PAYMENTS_TABLE"))
	return dispatch.Turnstile{To: d, Places: places, Most: env.Int("BATCH_PLACES") / 2, NewID: rand.Text, Now: env.Now, Log: slog.Default()}
}

// New returns the environment's dispatcher. draw picks a number below its argument, to spread requests over wallets.
func New(env *boot.Env, draw func(n int) int) *dispatch.Dispatcher {
	config := boot.Config(env)
	return dispatch.New(config, dispatch.Parts{
		Store: dynamo.OpenPayments(env.AWS, env.String("PAYMENTS_TABLE")),
		Book:  recipient.NewAddressBook(dynamo.OpenAPIKeys(env.AWS, env.String("API_KEYS_TABLE")), nil, env.Now), // no entry is made here
		Keys:  walletenv.Keys(env),
		Nodes: chainenv.Nodes(env), Log: slog.Default(), Now: env.Now, Random: rand.Reader, Draw: draw,
		Hints: queue.NewHints(sqs.NewFromConfig(env.AWS), env.String("SETTLE_QUEUE_URL"), config.BlockTime),
	})
}
