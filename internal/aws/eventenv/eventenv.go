// Package eventenv opens the webhook queue and the publisher of events.
package eventenv

import (
	"github.com/remit-payouts/remit/internal/aws/queue"
	"github.com/remit-payouts/remit/internal/aws/tableenv"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
)

// Jobs returns the queue WEBHOOK_QUEUE_URL.
func Jobs(env tableenv.Env) *queue.Jobs {
	return queue.OpenJobs(env.AWS, env.String("WEBHOOK_QUEUE_URL"))
}

// Publisher returns the publisher to merchants' endpoints, and to the event bus if EVENT_BUS has one.
func Publisher(env tableenv.Env) *webhook.Publisher {
	return &webhook.Publisher{Store: env.Webhooks(), Queue: Jobs(env), Bus: env.Optional("EVENT_BUS", "") != ""}
}
