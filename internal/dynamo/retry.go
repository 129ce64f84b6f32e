package dynamo

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/middleware"
)

// The SDK repeats a call by itself when an answer is lost. A transaction
// carries a token that makes DynamoDB answer the repetition as it answered the
// first (ClientRequestToken, good for ten minutes). A conditional write of one
// item has none: repeated, it may fail on what it wrote itself. Each such write
// in this package says what it makes of that.

// conflicts makes the SDK repeat what lost against a transaction on the same
// item. Such a call was not applied.
func conflicts(o *dynamodb.Options) {
	if r, ok := retry.AddWithErrorCodes(o.Retryer).(aws.RetryerV2); ok {
		o.Retryer = conflictRetryer{r}
	}
}

type conflictRetryer struct{ aws.RetryerV2 }

func (r conflictRetryer) IsErrorRetryable(err error) bool {
	return conflicted(err) || r.RetryerV2.IsErrorRetryable(err)
}

// conflictDelay is about what a transaction takes: the other one is over then.
const conflictDelay = 20 * time.Millisecond

func (r conflictRetryer) RetryDelay(attempt int, err error) (time.Duration, error) {
	if conflicted(err) {
		return time.Duration(attempt) * conflictDelay, nil
	}
	return r.RetryerV2.RetryDelay(attempt, err)
}

// conflicted reports whether a call was refused because another transaction
// was at work on one of its items, and for no other reason.
func conflicted(err error) bool {
	if _, ok := errors.AsType[*types.TransactionConflictException](err); ok {
		return true
	}
	canceled, ok := errors.AsType[*types.TransactionCanceledException](err)
	if !ok {
		return false
	}
	return slices.ContainsFunc(canceled.CancellationReasons, func(r types.CancellationReason) bool {
		return aws.ToString(r.Code) == "TransactionConflict"
	}) && !slices.ContainsFunc(canceled.CancellationReasons, failedCondition)
}

// once makes the SDK give a call up when its answer is lost.
func once(o *dynamodb.Options) { o.Retryer = retry.AddWithMaxAttempts(o.Retryer, 1) }

// counting counts in n how often the SDK sent the call.
func counting(n *int) func(*dynamodb.Options) {
	return func(o *dynamodb.Options) {
		o.APIOptions = append(slices.Clip(o.APIOptions), func(stack *middleware.Stack) error {
			return stack.Finalize.Insert(middleware.FinalizeMiddlewareFunc("CountAttempts",
				func(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (middleware.FinalizeOutput, middleware.Metadata, error) {
					*n++
					return next.HandleFinalize(ctx, in)
				}), "Retry", middleware.After)
		})
	}
}
