package dynamo

import (
	"errors"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// The SDK repeats a call by itself when an answer is lost. A transaction carries a token that makes DynamoDB answer
// the repetition as it answered the first (ClientRequestToken, good for ten minutes). A conditional write of one item
// has none: its condition may fail because the first call was applied. The comment on each such write in this package
// names the error that its caller then gets.

// conflicts makes the SDK repeat a call that lost against a transaction on its item, and was not applied.
func conflicts(o *dynamodb.Options) { counting(new(int))(o) }

// counting is conflicts, and counts in n the call's other failures.
func counting(n *int) func(*dynamodb.Options) {
	return func(o *dynamodb.Options) {
		if r, ok := retry.AddWithErrorCodes(o.Retryer).(aws.RetryerV2); ok {
			o.Retryer = &conflictRetryer{r, n}
		}
	}
}

// conflictTries and conflictDelay give other transactions, which take some milliseconds each, the time to end.
const (
	conflictTries = 6
	conflictDelay = 10 * time.Millisecond // doubled each time
)

// A conflictRetryer gives conflicts more tries than other errors of a call get. It belongs to one call.
type conflictRetryer struct {
	aws.RetryerV2
	others *int
}

func (r *conflictRetryer) MaxAttempts() int { return max(r.RetryerV2.MaxAttempts(), conflictTries) }

func (r *conflictRetryer) IsErrorRetryable(err error) bool {
	if conflicted(err) {
		return true
	}
	*r.others++
	return *r.others < r.RetryerV2.MaxAttempts() && r.RetryerV2.IsErrorRetryable(err)
}

func (r *conflictRetryer) RetryDelay(attempt int, err error) (time.Duration, error) {
	if conflicted(err) {
		return conflictDelay << min(max(attempt-1, 0), conflictTries), nil
	}
	return r.RetryerV2.RetryDelay(min(attempt, *r.others), err)
}

// unjudged are the codes of a write that was not tried, because another transaction was at work on its item or
// DynamoDB was throttling (AWS SDK, TransactionCanceledException).
var unjudged = []string{"TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"}

// conflicted reports whether err means that a call was neither applied nor judged.
func conflicted(err error) bool {
	if _, ok := errors.AsType[*types.TransactionConflictException](err); ok {
		return true
	}
	canceled, ok := errors.AsType[*types.TransactionCanceledException](err)
	if i, _ := firstFailed(err); !ok || i >= 0 {
		return false
	}
	return slices.ContainsFunc(canceled.CancellationReasons, func(r types.CancellationReason) bool {
		return slices.Contains(unjudged, aws.ToString(r.Code))
	})
}

// once keeps the SDK from repeating a call whose answer is lost.
func once(o *dynamodb.Options) { o.Retryer = retry.AddWithMaxAttempts(o.Retryer, 1) }
