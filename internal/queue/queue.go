// Package queue sends what one function leaves for another to do, by Amazon
// SQS. Receiving is done by package boot.
package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"remit/internal/webhook"
)

// Jobs is the webhook queue: its messages are jobs for a webhook.Deliverer.
type Jobs struct {
	client *sqs.Client
	url    string
}

var _ webhook.Queue = (*Jobs)(nil)

// NewJobs returns the webhook queue at url.
func NewJobs(client *sqs.Client, url string) *Jobs { return &Jobs{client, url} }

// Enqueue implements webhook.Queue. The endpoint is the message's group, which
// makes the queue a fair one: SQS hands out the jobs of quiet endpoints before
// those of one that takes up more than a tenth of the transactions at the nonce' time, as an
// endpoint that hangs does. Groups of a standard queue order nothing; they cost
// $0.10 per million more (SQS developer guide, "Fair queues").
func (q *Jobs) Enqueue(ctx context.Context, job string, delay time.Duration) error {
	if delay < 0 || delay > webhook.QueueLimit {
		return fmt.Errorf("enqueuing a webhook job: a delay of %v is not between 0 and %v", delay, webhook.QueueLimit)
	}
	ref, err := webhook.ParseRef(job)
	if err != nil {
		return fmt.Errorf("enqueuing a webhook job: %w", err)
	}
	if err := send(ctx, q.client, q.url, job, ref.Endpoint, delay); err != nil {
		return fmt.Errorf("enqueuing a webhook job: %w", err)
	}
	return nil
}

// Hints is the settle queue: a message in it, whatever it says, starts
// check-receipts.
type Hints struct {
	client *sqs.Client
	url    string
	delay  time.Duration
}

// NewHints returns the settle queue at url. delay is how long after a hint
// check-receipts is to start: about a block, at most 15 minutes.
func NewHints(client *sqs.Client, url string, delay time.Duration) *Hints {
	return &Hints{client, url, min(max(delay, 0), webhook.QueueLimit)}
}

// Hint has check-receipts started once.
func (q *Hints) Hint(ctx context.Context) error {
	if err := send(ctx, q.client, q.url, "{}", "", q.delay); err != nil {
		return fmt.Errorf("hinting at work to settle: %w", err)
	}
	return nil
}

// send rounds the delay up to whole seconds, the unit of SQS. An empty group is
// none.
func send(ctx context.Context, client *sqs.Client, url, body, group string, delay time.Duration) error {
	in := &sqs.SendMessageInput{
		QueueUrl:     &url,
		MessageBody:  &body,
		DelaySeconds: int32((delay + time.Second - 1) / time.Second), // at most 900
	}
	if group != "" {
		in.MessageGroupId = &group
	}
	_, err := client.SendMessage(ctx, in)
	return err
}
