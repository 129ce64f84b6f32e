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

// transact makes all writes or none. It returns the position of the first
// write whose condition failed, negative if none did. An error means that
// nothing is known of the conditions, and for most errors, of the writes.
func transact(ctx context.Context, db *dynamodb.Client, writes ...types.TransactWriteItem) (failed int, err error) {
	_, err = db.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: writes}, conflicts)
	if i := firstFailed(err); i >= 0 {
		return i, nil
	}
	return -1, err
}

// firstFailed returns the position of the write that cancelled a transaction
// by its condition, if all writes before it would have been made. After one
// that was not judged, because another transaction was at work on its item,
// nothing can be said: its condition may have failed too.
func firstFailed(err error) int {
	canceled, ok := errors.AsType[*types.TransactionCanceledException](err)
	if !ok {
		return -1
	}
	i := slices.IndexFunc(canceled.CancellationReasons, func(r types.CancellationReason) bool {
		return aws.ToString(r.Code) != "None"
	})
	if i >= 0 && failedCondition(canceled.CancellationReasons[i]) {
		return i
	}
	return -1
}

// conflicts makes the SDK repeat what lost against a transaction on the same
// item. Such a call was not applied.
func conflicts(o *dynamodb.Options) {
	if r, ok := retry.AddWithErrorCodes(o.Retryer).(aws.RetryerV2); ok {
		o.Retryer = &conflictRetryer{RetryerV2: r}
	}
}

// conflictTries and conflictDelay give other transactions, which take some
// milliseconds each, the time to end.
const (
	conflictTries = 6
	conflictDelay = 10 * time.Millisecond // doubled each time
)

// A conflictRetryer gives conflicts more tries than a call has for other
// errors. It belongs to one call.
type conflictRetryer struct {
	aws.RetryerV2
	others int
}

func (r *conflictRetryer) MaxAttempts() int { return max(r.RetryerV2.MaxAttempts(), conflictTries) }

func (r *conflictRetryer) IsErrorRetryable(err error) bool {
	if conflicted(err) {
		return true
	}
	r.others++
	return r.others < r.RetryerV2.MaxAttempts() && r.RetryerV2.IsErrorRetryable(err)
}

func (r *conflictRetryer) RetryDelay(attempt int, err error) (time.Duration, error) {
	if conflicted(err) {
		return conflictDelay << min(max(attempt-1, 0), conflictTries), nil
	}
	return r.RetryerV2.RetryDelay(min(attempt, r.others), err)
}

// unjudged are the codes of a write that was not tried: another transaction
// was at work on its item, or there was too much to do (AWS SDK,
// TransactionCanceledException).
var unjudged = []string{"TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"}

// conflicted reports that a call was not applied, and that nothing judged
// whether it could be.
func conflicted(err error) bool {
	if _, ok := errors.AsType[*types.TransactionConflictException](err); ok {
		return true
	}
	canceled, ok := errors.AsType[*types.TransactionCanceledException](err)
	return ok && firstFailed(err) < 0 && slices.ContainsFunc(canceled.CancellationReasons, func(r types.CancellationReason) bool {
		return slices.Contains(unjudged, aws.ToString(r.Code))
	})
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
