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
	"github.com/remit-payouts/remit/internal/aws/railenv"
	"github.com/remit-payouts/remit/internal/aws/walletenv"
	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/merchants/recipient"
	"github.com/remit-payouts/remit/internal/payments/dispatch"
)

// Batches returns the dispatcher for the function of batches, of whose places one merchant
// takes no more than half: of the reserved concurrency in BATCH_PLACES, 0 for none.
func Batches(env *boot.Env, d *dispatch.Rails) dispatch.Turnstile {
	places := dynamo.OpenPayments(env.AWS, env.String("PAYMENTS_TABLE"))
	return dispatch.Turnstile{To: d, Places: places, Most: env.Int("BATCH_PLACES") / 2, NewID: rand.Text, Now: env.Now, Log: slog.Default()}
}

// New returns the environment's dispatchers. draw picks a number below its argument, to spread requests over wallets.
func New(env *boot.Env, draw func(n int) int) *dispatch.Rails {
	nodes, hints, settle := chainenv.Open(env), sqs.NewFromConfig(env.AWS), env.String("SETTLE_QUEUE_URL")
	return dispatch.NewRails(dispatch.Wiring{Config: railenv.Config(env), Nodes: nodes.Of, Chains: nodes.Chains,
		Hints: func(c stack.Config) dispatch.Hinter { return queue.NewHints(hints, settle, c.BlockTime) },
	}, dispatch.Parts{
		Store: dynamo.OpenPayments(env.AWS, env.String("PAYMENTS_TABLE")),
		Book:  recipient.NewAddressBook(dynamo.OpenAPIKeys(env.AWS, env.String("API_KEYS_TABLE")), 0, env.Now), // no entry is made here
		Keys:  walletenv.Keys(env), Log: slog.Default(), Now: env.Now, Random: rand.Reader, Draw: draw,
	})
}
