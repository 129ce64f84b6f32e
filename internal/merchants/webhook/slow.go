package webhook

import (
	"context"
	"errors"
	"time"
)

// A post that takes long keeps a place of deliver-webhook, and those of the messages beside it. After slowLimit
// attempts in a row that took slowAfter or longer, whatever the answer, an endpoint is parked: one delivery at a time
// is posted to it, as a probe, and the others are put off.
const (
	slowAfter = 5 * time.Second
	slowLimit = 3

	// The next probe waits for probeWait, doubled after each probe without a success up to
	// probeDoublings times, 16 minutes; after a slow success, for as long as that took.
	probeWait      = time.Minute // longer than any attempt
	probeDoublings = 4

	putOffLimit = 24 * time.Hour // the longest wait of a delivery that is put off
)

func (e Endpoint) slowness(a Attempt, now time.Time) (slow int, retryAt time.Time) {
	switch {
	case a.Duration < slowAfter:
		return 0, time.Time{}
	case e.Slow < slowLimit-1:
		return e.Slow + 1, time.Time{}
	case e.Slow < slowLimit:
		return slowLimit, now.Add(probeWait)
	case e.Slow > slowLimit && a.Succeeded():
		return slowLimit, now.Add(a.Duration)
	}
	return e.Slow, e.RetryAt
}

// probe reports whether a delivery may be posted to the parked endpoint now, and returns the endpoint as it then is.
// The write that claims the probe puts the next off: one process posts at a time, and another may if it dies.
func (d *Deliverer) probe(ctx context.Context, e Endpoint) (Endpoint, bool, error) {
	now := instant(d.Now)
	if now.Before(e.RetryAt) {
		return e, false, nil
	}
	e.RetryAt = now.Add(probeWait << min(e.Slow-slowLimit, probeDoublings))
	e.Slow++
	claimed, err := d.Store.SaveEndpoint(ctx, e)
	if errors.Is(err, ErrConflict) || errors.Is(err, ErrNotFound) {
		return e, false, nil // another process probes, or the merchant has changed it
	}
	return claimed, err == nil, err
}

// putOff makes a parked endpoint's delivery wait as long again as since its event, at least until the next probe: it is
// read a dozen times, not once per probe. That is no attempt. It ends when its attempts would have ended.
func (d *Deliverer) putOff(ctx context.Context, e Endpoint, del Delivery) error {
	now := instant(d.Now)
	age, next := now.Sub(del.CreatedAt), del
	if del.NextAttemptAt.Equal(del.CreatedAt) {
		age = 0 // its first attempt, however late it was published
	}
	if age > patience(del.Mode) {
		next = next.ended(Exhausted, now)
		if err := d.assess(ctx, e, next, Attempt{Duration: slowAfter}); err != nil { // no news of the endpoint
			return err
		}
	} else {
		wait := min(max(age, e.RetryAt.Sub(now)), putOffLimit)
		next = next.due(now, wait+time.Duration(spread*d.Jitter()*float64(wait)))
	}
	return d.schedule(ctx, next, len(del.Attempts))
}

// patience is the time from the first attempt to the last in the given mode.
func patience(mode string) (sum time.Duration) {
	for _, wait := range schedule[:attemptLimit(mode)] {
		sum += wait
	}
	return sum
}
