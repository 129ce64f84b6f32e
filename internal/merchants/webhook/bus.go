package webhook

import (
	"context"
	"time"
)

// A Bus is the operator's own receiver of all merchants' events. Put may have been done although it returned an error.
type Bus interface {
	Put(ctx context.Context, ev Event) error
}

const (
	busEndpoint = "bus" // in place of an endpoint's id, in the job of an event for the bus
	busPatience = 3 * 24 * time.Hour
)

// forward gives the bus its event. While the bus fails, the job goes back into the queue for as long as the event is
// old, at most QueueLimit; after busPatience it is an error, so that it ends among the dead letters.
func (d *Deliverer) forward(ctx context.Context, of Delivery) error {
	if d.Bus == nil {
		return nil
	}
	err := d.Bus.Put(ctx, of.Event)
	if age := d.Now().Sub(of.Event.At); err != nil && age < busPatience {
		return d.Queue.Enqueue(ctx, of.job(), queueDelay(max(age, schedule[1])))
	}
	return err
}
