package webhook

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// A Publisher turns events into jobs for the endpoints that subscribed to them.
type Publisher struct {
	Store Store
	Queue Queue

	// Bus has a job enqueued for the bus too, once those for the endpoints are enqueued.
	Bus bool
}

// Publish enqueues a job for each endpoint of ev's merchant and mode that subscribed to its type. The job carries the
// event; the delivery is stored with the result of its first attempt. Once Publish returned nil every delivery will
// be attempted. After an error or a crash any of the jobs may exist; publishing the same event again makes the
// missing ones, and a second job of a delivery does no harm.
//
// All fields of ev must be the same every time. At counts in whole milliseconds.
// The job for a disabled endpoint stores its delivery as Cancelled, to be resent later.
func (p *Publisher) Publish(ctx context.Context, ev Event) error {
	ev.At = ev.At.UTC().Truncate(time.Millisecond)
	endpoints, err := p.Store.Endpoints(ctx, Owner{ev.Merchant, ev.Mode})
	if err != nil {
		return fmt.Errorf("publishing %s: %w", ev.ID, err)
	}
	var errs []error
	for _, e := range endpoints {
		if e.Subscribed(ev.Type) {
			errs = append(errs, p.Queue.Enqueue(ctx, firstDelivery(e, ev).job(), 0))
		}
	}
	if err = errors.Join(errs...); err == nil && p.Bus {
		to := Endpoint{Owner: Owner{ev.Merchant, ev.Mode}, ID: busEndpoint}
		err = p.Queue.Enqueue(ctx, firstDelivery(to, ev).job(), 0)
	}
	if err != nil {
		err = fmt.Errorf("publishing %s: %w", ev.ID, err)
	}
	return err
}

// Named reports whether an endpoint of o names a type of event. It is one read.
func (p *Publisher) Named(ctx context.Context, o Owner, kind string) (bool, error) {
	endpoints, err := p.Store.Endpoints(ctx, o)
	if err != nil {
		return false, fmt.Errorf("asking who wants %s of %s: %w", kind, o.Merchant, err)
	}
	return slices.ContainsFunc(endpoints, func(e Endpoint) bool { return slices.Contains(e.EventTypes, kind) }), nil
}

// Announce publishes an event of the given type whose data is written as JSON. Once it returned nil every delivery
// will be attempted. After an error or a crash some may be: the caller must not do what it announces, or announce
// that again, with the same data, which makes the same event.
func (p *Publisher) Announce(ctx context.Context, o Owner, kind string, at time.Time, data any) error {
	unnamed, _ := enveloped(o, "", kind, at, data) // data that is not JSON fails below too
	sum := sha256.Sum256(fmt.Appendf(nil, "event\x00%s\x00%s\x00%s", o.Merchant, o.Mode, unnamed.Body))
	ev, err := enveloped(o, "evt_"+hex.EncodeToString(sum[:12]), kind, at, data)
	if err != nil {
		return fmt.Errorf("writing a %s: %w", kind, err)
	}
	return p.Publish(ctx, ev)
}

// pushWidth is the number of jobs that a Pusher makes at the same time, dueWindow how many due deliveries it looks at
// for each that it enqueues at most. Half of them have just come due: with fewer in a minute, each merchant's are
// seen when they do. Keys of 16,000 deliveries are four megabytes, which DynamoDB reads for 500 units.
const pushWidth, dueWindow = 16, 16

// A Pusher makes jobs of parked deliveries whose time has come.
type Pusher struct {
	Store DueStore
	Queue Queue
	Meter Meter
}

// PushDue enqueues at most limit parked deliveries that are due at now. Of more than limit it takes one of each
// merchant in turn, so that no merchant's backlog holds up another. It is to be called every minute. Two calls
// at a time may make two jobs of a delivery, which does no harm. After an error the other deliveries wait for the next
// call.
func (p *Pusher) PushDue(ctx context.Context, now time.Time, limit int) error {
	due, dueErr := p.Store.Due(ctx, now, dueWindow*limit)
	var age time.Duration
	for _, d := range due {
		age = max(age, now.Sub(d.At))
	}
	if age > 0 {
		p.Meter.Add("WebhookOldestDue", age.Seconds())
	}
	var group errgroup.Group
	group.SetLimit(pushWidth)
	for _, d := range inTurns(due, limit) {
		group.Go(func() error {
			// A crash between the two calls leaves it parked, and the next PushDue makes a second job.
			err := p.Queue.Enqueue(ctx, d.Ref.String(), 0)
			if err == nil {
				err = p.Store.Unpark(ctx, d)
			}
			if err != nil {
				err = fmt.Errorf("pushing %s: %w", d.Delivery, err)
			}
			return err
		})
	}
	return errors.Join(dueErr, group.Wait())
}

// inTurns returns at most limit of due: the first of each owner, then the second of each, and so on.
func inTurns(due []Due, limit int) []Due {
	waiting, turn := map[Owner]int{}, map[Ref]int{}
	for _, d := range due {
		turn[d.Ref] = waiting[d.Owner]
		waiting[d.Owner]++
	}
	slices.SortStableFunc(due, func(a, b Due) int { return turn[a.Ref] - turn[b.Ref] })
	return due[:min(limit, len(due))]
}
