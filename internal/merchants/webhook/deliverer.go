package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// ends are the numbers of deliveries that became final.
var ends = map[DeliveryStatus]string{Delivered: "WebhooksDelivered", Exhausted: "WebhooksExhausted", Cancelled: "WebhooksCancelled"}

// A Deliverer does the jobs that a Queue carries.
type Deliverer struct {
	Store  Store
	Queue  Queue
	Sender Sender
	Meter  Meter
	Now    func() time.Time
	Jitter func() float64 // returns numbers in [0, 1)

	// Bus gets the events of the jobs for a bus. Without one these jobs are done.
	Bus Bus
}

// Deliver does one job: it posts the delivery if an attempt is due, and stores the attempt and the time of the next
// one. A nil error means that the job is done and may be deleted from the queue, whether or not the endpoint took the
// message. After any error the job must be done again: the message may have been posted, and is then posted a second
// time. With ErrJob and ErrDeliveryNotFound a second try is of no use.
//
// A job begins only if ctx leaves it the time for a whole attempt.
func (d *Deliverer) Deliver(ctx context.Context, job string) error {
	first, whole, err := ParseJob(job)
	if err != nil {
		return err
	}
	ref := first.Ref
	if end, ok := ctx.Deadline(); ok && end.Sub(d.Now()) < SendTimeout+recordTimeout {
		return fmt.Errorf("delivering %s: %w", ref.Delivery, context.DeadlineExceeded)
	}
	if err := d.deliver(ctx, first, whole); err != nil {
		return fmt.Errorf("delivering %s to %s: %w", ref.Delivery, ref.Endpoint, err)
	}
	return nil
}

func (d *Deliverer) deliver(ctx context.Context, first Delivery, whole bool) error {
	if whole && first.Endpoint == busEndpoint {
		return d.forward(ctx, first)
	}
	e, del, err := d.Store.Load(ctx, first.Ref)
	if whole && errors.Is(err, ErrDeliveryNotFound) {
		del, err = first, nil
	}
	if err != nil {
		return err
	}
	if del.Status != Pending {
		return nil // the job came twice, or its deletion from the queue was lost
	}
	if e.Status != Enabled {
		_, err = d.record(ctx, del.ended(Cancelled, instant(d.Now)), len(del.Attempts))
		return err
	}
	// A first attempt is never early: another machine's clock set its time.
	if wait := del.NextAttemptAt.Sub(d.Now()); wait > 0 && len(del.Attempts) > 0 {
		return d.Queue.Enqueue(ctx, del.Ref.String(), queueDelay(wait))
	}
	if e.Slow >= slowLimit {
		var ok bool
		if e, ok, err = d.probe(ctx, e); err != nil {
			return err
		}
		if !ok {
			return d.putOff(ctx, e, del)
		}
	}
	x, err := post(ctx, d.Sender, e, del.Event, d.Now)
	if err != nil {
		return err
	}
	d.Meter.Add("Webhook"+x.result(), 1)
	d.Meter.Add("WebhookDuration", float64(x.Duration.Milliseconds()))
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	// First the endpoint's health is stored, then the attempt, then the job for the next attempt. A crash between two of
	// these writes leaves the job in the queue, and it is done again. So the endpoint's health knows every attempt of the
	// log, and every pending delivery has a job or a place in the due index.
	next := d.after(del, x)
	if err := d.assess(ctx, e, next, x.Attempt); err != nil {
		return err
	}
	return d.schedule(ctx, next, len(del.Attempts))
}

// schedule records next, then enqueues the job for its next attempt if the due index does not keep it.
func (d *Deliverer) schedule(ctx context.Context, next Delivery, attempts int) error {
	recorded, err := d.record(ctx, next, attempts)
	if err != nil || !recorded || next.Status != Pending || next.Parked {
		return err
	}
	return d.Queue.Enqueue(ctx, next.Ref.String(), queueDelay(next.NextAttemptAt.Sub(d.Now())))
}

func (d *Deliverer) after(del Delivery, x exchange) Delivery {
	next, now := del.with(x.Attempt), instant(d.Now)
	made := len(next.Attempts)
	switch {
	case x.Succeeded():
		return next.ended(Delivered, now)
	case x.StatusCode == http.StatusGone, made >= attemptLimit(del.Mode):
		return next.ended(Exhausted, now)
	}
	return next.due(now, delay(made, x, now, d.Jitter()))
}

// record stores next over a delivery that had the given number of attempts. If a copy of the job has recorded an
// attempt meanwhile, that attempt stays, the copy takes care of the next one, and record reports false. But a success
// is recorded after the copy's attempt: the endpoint has the message.
func (d *Deliverer) record(ctx context.Context, next Delivery, attempts int) (bool, error) {
	ours, _ := next.LastAttempt()
	for range recordTries {
		stored, err := d.Store.Record(ctx, next, attempts)
		if err == nil {
			if name := ends[next.Status]; name != "" {
				d.Meter.Add(name, 1)
			}
			if next.Status == Delivered {
				d.Meter.Add("SecondsToDelivered", d.Now().Sub(next.CreatedAt).Seconds())
			}
			return true, nil
		}
		if !errors.Is(err, ErrConflict) {
			return false, err
		}
		if next.Status != Delivered || stored.Status == Delivered {
			return false, nil
		}
		attempts, next = len(stored.Attempts), stored.with(ours).ended(Delivered, instant(d.Now))
	}
	return false, fmt.Errorf("recording, %d times: %w", recordTries, ErrConflict)
}
