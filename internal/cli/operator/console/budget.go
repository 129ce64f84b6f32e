package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go/middleware"

	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
)

// A budget is how many calls may be made in any minute, retries among them. Its zero
// value allows none.
type budget struct {
	most int

	mu   sync.Mutex
	made []time.Time // the calls of the last minute, oldest first
}

// An errSpent reports a call that would exceed the budget, and was not made.
type errSpent struct {
	most int
	wait time.Duration
}

func (e errSpent) Error() string {
	return fmt.Sprintf("all %d calls of this minute are made: ask again in %d s", e.most, int(e.wait.Seconds())+1)
}

// RetryableError reports to the AWS SDK that the next attempt would end in the same way.
func (errSpent) RetryableError() bool { return false }

// used returns the calls of the last minute. The caller holds the lock.
func (b *budget) used() int {
	now := time.Now()
	b.made = slices.DeleteFunc(b.made, func(at time.Time) bool { return now.Sub(at) >= time.Minute })
	return len(b.made)
}

// take counts a call that is about to be made, or refuses it with an errSpent.
func (b *budget) take() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used() < b.most {
		b.made = append(b.made, time.Now())
		return nil
	}
	wait := time.Minute
	if len(b.made) > 0 {
		wait -= time.Since(b.made[0])
	}
	return errSpent{b.most, wait}
}

// room waits until the budget has n calls and a quarter of itself left, the quarter for a
// person's searches. It counts no call.
func (b *budget) room(ctx context.Context, n int) error {
	for {
		b.mu.Lock()
		free := b.used()+min(n, b.most/2) <= b.most-b.most/4
		b.mu.Unlock()
		if free {
			return ctx.Err()
		}
		if err := deployed.Wait(ctx, 250*time.Millisecond); err != nil {
			return err
		}
	}
}

// reads are the operations of AWS that a console may call. None writes.
var reads = []string{
	"CloudFormation ListStackResources", "CloudWatch DescribeAlarms", "Secrets Manager GetSecretValue",
	"DynamoDB BatchGetItem", "DynamoDB GetItem", "DynamoDB Query",
}

// errNoRead reports a call of AWS that was not made, since it is none of reads.
var errNoRead = errors.New("the console only reads; report this bug")

// reading returns cfg for clients that can only read, with every attempt of a call counted.
func (b *budget) reading(cfg aws.Config) aws.Config {
	cfg = cfg.Copy()
	cfg.APIOptions = append(slices.Clone(cfg.APIOptions), b.onlyReads)
	return cfg
}

func (b *budget) onlyReads(stack *middleware.Stack) error {
	return stack.Finalize.Add(middleware.FinalizeMiddlewareFunc("RemitBudget",
		func(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (middleware.FinalizeOutput,
			middleware.Metadata, error) {
			name := awsmiddleware.GetServiceID(ctx) + " " + awsmiddleware.GetOperationName(ctx)
			err := b.take()
			if !slices.Contains(reads, name) {
				err = fmt.Errorf("%s: %w", name, errNoRead)
			}
			if err != nil {
				return middleware.FinalizeOutput{}, middleware.Metadata{}, err
			}
			return next.HandleFinalize(ctx, in)
		}), middleware.After) // behind the step that repeats a call
}

// A counted carries requests to nodes, and counts them.
type counted struct {
	*budget
	next http.RoundTripper
}

func (c counted) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := c.take(); err != nil {
		return nil, err
	}
	return c.next.RoundTrip(r)
}
