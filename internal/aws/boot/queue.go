package boot

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/events"
)

// A Job handles one message of a queue, given its body. An error makes the queue deliver the message again later.
type Job func(ctx context.Context, body string) error

// answerWithin is kept back from an invocation's time: a batch with a message that hangs is answered for the others.
const answerWithin = time.Second

// Batches adapts job to SQS events. The messages of a batch are handled at the same time, so that a slow one delays
// no other, and reported one by one: a message whose job failed, panicked or ran out of time is delivered again,
// alone. The answer is never nil, which one local SQS cannot read.
func Batches(job Job) func(context.Context, events.SQSEvent) (events.SQSEventResponse, error) {
	return func(ctx context.Context, ev events.SQSEvent) (events.SQSEventResponse, error) {
		if deadline, ok := ctx.Deadline(); ok {
			var cancel context.CancelFunc
			ctx, cancel = context.WithDeadline(ctx, deadline.Add(-answerWithin))
			defer cancel()
		}
		errs := make([]error, len(ev.Records))
		var wg sync.WaitGroup
		for i, m := range ev.Records {
			wg.Go(func() { errs[i] = try(ctx, job, m.Body) })
		}
		wg.Wait()
		failed := []events.SQSBatchItemFailure{}
		for i, err := range errs {
			if err != nil {
				slog.ErrorContext(ctx, "handling a message", "message_id", ev.Records[i].MessageId,
					"receives", ev.Records[i].Attributes["ApproximateReceiveCount"], "err", err)
				failed = append(failed, events.SQSBatchItemFailure{ItemIdentifier: ev.Records[i].MessageId})
			}
		}
		return events.SQSEventResponse{BatchItemFailures: failed}, nil
	}
}

func try(ctx context.Context, job Job, body string) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return job(ctx, body)
}
