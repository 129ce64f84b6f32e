// Package resend finds the events that an endpoint never got, and sends them again, for an operator.
package resend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/remit-payouts/remit/internal/merchants/webhook"
)

// scanLimit is the most deliveries that a search reads. A delivery whose attempt is overdue by
// stuckAfter has lost its job: the queue gave it up, or was emptied.
const (
	scanLimit  = 100_000
	stuckAfter = time.Hour
)

// ErrTooMany reports a log of an endpoint that is too long to search.
var ErrTooMany = errors.New("100,000 deliveries or more: begin later")

// Failed returns the deliveries created in [from, to) that were exhausted or cancelled or have lost their job by now,
// one per event, oldest first, without their bodies. An event that another delivery brought to the endpoint, or still
// carries, is left out. ErrTooMany if the log since from is too long to search: a part could pass for all.
func Failed(ctx context.Context, log *webhook.Log, o webhook.Owner, endpoint string, from, to, now time.Time) (
	failed []webhook.Delivery, err error) {
	since, err := log.Between(ctx, o, endpoint, from, time.Time{}, scanLimit)
	if err != nil {
		return nil, err
	}
	if len(since) == scanLimit {
		return nil, fmt.Errorf("searching the log of %s: %w", endpoint, ErrTooMany)
	}
	skip := map[string]bool{} // events that arrived, are on their way, or are in failed
	for _, d := range since {
		stuck := !d.Parked && now.Sub(d.NextAttemptAt) > stuckAfter
		if d.Status == webhook.Delivered || d.Status == webhook.Pending && !stuck {
			skip[d.Event.ID] = true
		}
	}
	for _, d := range slices.Backward(since) {
		if d.CreatedAt.Before(to) && !skip[d.Event.ID] {
			skip[d.Event.ID] = true
			failed = append(failed, d)
		}
	}
	return failed, nil
}

// All resends each delivery of Failed and returns the new ones. A second call, also after a crash, resends the rest.
func All(ctx context.Context, log *webhook.Log, o webhook.Owner, endpoint string, from, to, now time.Time) (
	resent []webhook.Delivery, err error) {
	failed, err := Failed(ctx, log, o, endpoint, from, to, now)
	for _, f := range failed {
		d, err := log.Resend(ctx, o, endpoint, f.Delivery)
		if err != nil {
			return resent, err
		}
		resent = append(resent, d)
	}
	return resent, err
}
