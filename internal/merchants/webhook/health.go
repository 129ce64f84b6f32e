package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

const (
	// quietLimit is the time without a success after which the second exhausted event disables an endpoint.
	quietLimit = 120 * time.Hour

	// successScan is how many of an endpoint's newest deliveries are searched for a success when it begins to fail.
	successScan = 200
)

// assess stores the health in which a, the newest attempt of del, leaves its endpoint. A healthy endpoint costs no
// write. If another delivery's attempt or the merchant has changed e meanwhile, the changed endpoint is assessed.
func (d *Deliverer) assess(ctx context.Context, e Endpoint, del Delivery, a Attempt) error {
	for range saveTries {
		assessed, err := d.assessment(ctx, e, del, a)
		if err != nil || assessed.same(e) {
			return err
		}
		_, err = d.Store.SaveEndpoint(ctx, assessed)
		if err == nil || errors.Is(err, ErrNotFound) {
			return nil // saved, or deleted meanwhile
		}
		if !errors.Is(err, ErrConflict) {
			return err
		}
		if e, err = d.Store.Endpoint(ctx, e.Owner, e.ID); err != nil {
			return err
		}
	}
	return fmt.Errorf("assessing, %d times: %w", saveTries, ErrConflict)
}

func (e Endpoint) same(f Endpoint) bool {
	return e.Status == f.Status && e.QuietSince.Equal(f.QuietSince) && e.Exhausted == f.Exhausted &&
		e.Slow == f.Slow && e.RetryAt.Equal(f.RetryAt)
}

// assessment returns e after a, the newest attempt of del: healthy after a success; disabled by a 410, or by the second
// exhausted event since its last success, if that is quietLimit ago; parked while attempts are slow.
func (d *Deliverer) assessment(ctx context.Context, e Endpoint, del Delivery, a Attempt) (Endpoint, error) {
	e.Slow, e.RetryAt = e.slowness(a, instant(d.Now))
	if del.Status == Delivered {
		e.QuietSince, e.Exhausted = time.Time{}, ""
		return e, nil
	}
	if e.QuietSince.IsZero() {
		var err error
		if e.QuietSince, err = d.lastSuccess(ctx, e); err != nil {
			return Endpoint{}, err
		}
	}
	if a.StatusCode == http.StatusGone {
		e.Status = Disabled
	}
	if del.Status == Exhausted {
		another := e.Exhausted != "" && e.Exhausted != del.Event.ID
		if another && d.Now().Sub(e.QuietSince) >= quietLimit {
			e.Status = Disabled
		}
		e.Exhausted = del.Event.ID
	}
	return e, nil
}

// lastSuccess returns the time of the last success of an endpoint that begins to fail, or the time it was enabled if
// there was none since. If none of the successScan newest deliveries succeeded, it returns the present: an endpoint
// may be disabled late, but never early.
func (d *Deliverer) lastSuccess(ctx context.Context, e Endpoint) (time.Time, error) {
	recent, err := d.Store.Deliveries(ctx, e.Owner, e.ID, time.Time{}, time.Time{}, successScan)
	if err != nil {
		return time.Time{}, err
	}
	last, found := e.EnabledAt, len(recent) < successScan
	for _, r := range recent {
		if a, ok := r.LastAttempt(); ok && r.Status == Delivered {
			if found = true; a.At.After(last) {
				last = a.At
			}
		}
	}
	if !found {
		last = instant(d.Now)
	}
	return last, nil
}
