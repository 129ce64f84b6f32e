// Command deliver-webhook posts webhooks, one for each job of its queue.
package main

import (
	"math/rand/v2"
	"os"
	"time"

	"remit/internal/boot"
	"remit/internal/dynamo"
	"remit/internal/emf"
	"remit/internal/kms"
	"remit/internal/queue"
	"remit/internal/webhook"
	"remit/internal/webhook/guard"
)

func main() { boot.Queue(wire) }

// wire names everything this function may touch. DeliverWebhookFunction in
// template.yaml is granted exactly this.
func wire(env *boot.Env) boot.Job {
	webhooks := webhook.Sealed{Store: dynamo.OpenWebhooks(env.AWS, env.String("WEBHOOKS_TABLE")), Open: kms.OpenDataKeys(env.AWS, "").Open}
	jobs := queue.OpenJobs(env.AWS, env.String("WEBHOOK_QUEUE_URL"))
	sender := guard.NewClient(env.Optional("WEBHOOK_LOOPBACK", "refused") == "allowed", env.String("MODE") == "live")
	meter := emf.New(os.Stdout, env.String("STACK"), time.Now)
	return do(webhook.NewDeliverer(webhooks, jobs, sender, meter, time.Now, rand.Float64), meter)
}
