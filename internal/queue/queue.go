// Package queue sends the messages by which one Lambda function gives work to
// another, by Amazon SQS. Package boot receives them.
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

// NewJobs returns the webhook queue at url.
func NewJobs(client *sqs.Client, url string) *Jobs { return &Jobs{client, url} }

// Enqueue implements webhook.Queue. The endpoint is the message's group, which
// makes the queue a fair one: an endpoint that hangs takes up more than a tenth
// of the receivers' time, and SQS then hands out the jobs of other endpoints
// before its own. Groups of a standard queue order nothing; they cost $0.10 per
// million messages more (SQS developer guide, "Fair queues").
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

// Hints is the settle queue: each message in it starts check-receipts. The
// message's text says nothing.
type Hints struct {
	client *sqs.Client
	url    string
	delay  time.Duration
}

// NewHints returns the settle queue at url. delay is the time from a hint to
// the start of check-receipts: about a block, at most 15 minutes.
func NewHints(client *sqs.Client, url string, delay time.Duration) *Hints {
	return &Hints{client, url, min(max(delay, 0), webhook.QueueLimit)}
}

// Hint starts check-receipts once, after the delay.
func (q *Hints) Hint(ctx context.Context) error {
	if err := send(ctx, q.client, q.url, "{}", "", q.delay); err != nil {
		return fmt.Errorf("hinting at work to settle: %w", err)
	}
	return nil
}

// send posts one message. It rounds the delay up to whole seconds, the unit of
// SQS. An empty group is none.
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
