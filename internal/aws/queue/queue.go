// Package queue sends messages by which a Lambda function gives work to another, by SQS. Package boot receives them.
package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/remit-payouts/remit/internal/merchants/webhook"
)

// Jobs is the webhook queue: its messages are jobs for a webhook.Deliverer. It is safe for concurrent use: jobs that
// are enqueued while a request is under way go together in the next one, up to batchLimit of them.
type Jobs struct {
	Client *sqs.Client
	URL    string

	mu      sync.Mutex
	busy    bool // a request is under way, or a message has its turn to make one
	waiting []*message
}

// The limits of a SendMessageBatch: messages, and bytes of all bodies. SQS takes 1 MiB
// by now; other implementations, and SQS where it was not raised, 256 KiB.
const batchLimit, batchBytes = 10, 256 << 10

// errRefused reports a message of a batch that SQS did not take, as opposed to the batch.
var errRefused = errors.New("SQS did not take the message")

// A message waits until another's request sends it, or until it is first and sends the waiting messages itself.
type message struct {
	entry types.SendMessageBatchRequestEntry
	turn  chan struct{}
	sent  chan error
}

// OpenJobs returns the webhook queue at url, in the account of config.
func OpenJobs(config aws.Config, url string) *Jobs {
	return &Jobs{Client: sqs.NewFromConfig(config), URL: url}
}

// Enqueue implements webhook.Queue. The merchant is the message's group, which makes the queue a fair one: a merchant
// whose endpoints hang takes up more than a tenth of the receivers' time, and SQS then hands out the jobs of other
// merchants before its own. Groups of a standard queue order nothing; they cost $0.10 per million messages more (SQS
// developer guide, "How Amazon SQS fair queues work").
func (q *Jobs) Enqueue(ctx context.Context, job string, delay time.Duration) error {
	if delay < 0 || delay > webhook.QueueLimit {
		return fmt.Errorf("enqueuing a webhook job: a delay of %v is not between 0 and %v", delay, webhook.QueueLimit)
	}
	of, _, err := webhook.ParseJob(job)
	if err != nil {
		return fmt.Errorf("enqueuing a webhook job: %w", err)
	}
	m := &message{
		types.SendMessageBatchRequestEntry{MessageBody: &job, MessageGroupId: &of.Merchant, DelaySeconds: seconds(delay)},
		make(chan struct{}, 1), make(chan error, 1),
	}
	q.mu.Lock()
	q.waiting = append(q.waiting, m)
	if !q.busy {
		q.next()
	}
	q.mu.Unlock()
	select {
	case <-m.turn:
		q.send(ctx)
		err = <-m.sent
	case err = <-m.sent:
	}
	if err != nil {
		return fmt.Errorf("enqueuing a webhook job: %w", err)
	}
	return nil
}

// next gives the first waiting message its turn. Its caller holds the lock.
func (q *Jobs) next() {
	if q.busy = len(q.waiting) > 0; q.busy {
		q.waiting[0].turn <- struct{}{}
	}
}

// send makes one request of the messages that wait longest, and gives each its outcome.
func (q *Jobs) send(ctx context.Context) {
	q.mu.Lock()
	n, bytes := 0, 0
	for ; n < min(len(q.waiting), batchLimit); n++ {
		if bytes += len(*q.waiting[n].entry.MessageBody); n > 0 && bytes > batchBytes {
			break
		}
	}
	batch := q.waiting[:n:n]
	q.waiting = q.waiting[n:]
	q.mu.Unlock()

	in := &sqs.SendMessageBatchInput{QueueUrl: &q.URL}
	for i, m := range batch {
		m.entry.Id = new(strconv.Itoa(i))
		in.Entries = append(in.Entries, m.entry)
	}
	out, err := q.Client.SendMessageBatch(ctx, in)
	results := slices.Repeat([]error{cmp.Or(err, errRefused)}, n) // of each that no answer names
	if err == nil {
		for _, taken := range out.Successful {
			if i, err := strconv.Atoi(*taken.Id); err == nil && i < n {
				results[i] = nil
			}
		}
	}
	for i, m := range batch {
		m.sent <- results[i]
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.next()
}

// Hints is the settle queue: each message in it starts check-receipts. The message's text says nothing.
type Hints struct {
	client *sqs.Client
	url    string
	delay  time.Duration
}

// NewHints returns the settle queue at url. check-receipts starts delay after a hint: about a block, at most 15 min.
func NewHints(client *sqs.Client, url string, delay time.Duration) *Hints {
	return &Hints{client, url, min(max(delay, 0), webhook.QueueLimit)}
}

// Hint starts check-receipts once, after the delay.
func (q *Hints) Hint(ctx context.Context) error {
	in := &sqs.SendMessageInput{QueueUrl: &q.url, MessageBody: aws.String("{}"), DelaySeconds: seconds(q.delay)}
	if _, err := q.client.SendMessage(ctx, in); err != nil {
		return fmt.Errorf("hinting at work to settle: %w", err)
	}
	return nil
}

// seconds rounds up to whole seconds, the unit of SQS.
func seconds(d time.Duration) int32 { return int32((d + time.Second - 1) / time.Second) } // at most 900
