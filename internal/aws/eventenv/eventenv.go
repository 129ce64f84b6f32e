// Package eventenv opens the publisher of events.
package eventenv

import (
	"github.com/remit-payouts/remit/internal/aws/boot"
	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/aws/queue"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
)

// Publisher returns the publisher to merchants' endpoints, and to the event bus if EVENT_BUS has one.
func Publisher(env *boot.Env) *webhook.Publisher {
	webhooks := dynamo.OpenWebhooks(env.AWS, env.String("WEBHOOKS_TABLE"))
	return webhook.NewPublisher(webhooks, queue.OpenJobs(env.AWS, env.String("WEBHOOK_QUEUE_URL"))).
		WithBus(env.Optional("EVENT_BUS", "") != "")
}
