// Command send-payment serves POST /send-payment.
package main

import (
	"crypto/rand"
	"log/slog"
	mathrand "math/rand/v2"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"remit/internal/boot"
	"remit/internal/chainenv"
	"remit/internal/dispatch"
	"remit/internal/dynamo"
	"remit/internal/httpapi"
	"remit/internal/meterenv"
	"remit/internal/queue"
	"remit/internal/recipient"
	"remit/internal/token"
	"remit/internal/walletenv"
)

func main() { boot.HTTP(wire) }

// wire names everything this function may touch. SendPaymentFunction in
// template.yaml is granted exactly this.
func wire(env *boot.Env) http.Handler {
	boot.Closed(env)
	config := chainenv.Config(env)
	config.Network, config.MemoOff, config.Sanctions = env.String("NETWORK"), env.String("MEMO") == "off", chainenv.Sanctions(env)
	config.RequireKey, config.Daily = env.String("REQUIRE_IDEMPOTENCY_KEY") == "true", boot.Parse(env, "DAILY_LIMIT", token.ParseAmount)
	config.Minimum, config.Maximum = boot.Parse(env, "AMOUNT_MINIMUM", token.ParseAmount), boot.Parse(env, "AMOUNT_MAXIMUM", token.ParseAmount)
	db := dynamodb.NewFromConfig(env.AWS)
	return meterenv.Refusals(env, time.Now, httpapi.SendPayment(rand.Text, dispatch.New(config, dispatch.Parts{
		Store: dynamo.NewPayments(db, env.String("PAYMENTS_TABLE")),
		Book:  recipient.NewBook(dynamo.NewAPIKeys(db, env.String("API_KEYS_TABLE")), 0, time.Now), // no entry is made here
		Keys:  walletenv.Keys(env, time.Now),
		Nodes: chainenv.Nodes(env, config.TreasuryAllowance, time.Now), Log: slog.Default(), Now: time.Now, Random: rand.Reader, Draw: mathrand.IntN,
		Hints: queue.NewHints(sqs.NewFromConfig(env.AWS), env.String("SETTLE_QUEUE_URL"), config.BlockTime),
	}), config.Token))
}
