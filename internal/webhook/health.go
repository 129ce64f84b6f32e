package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

const (
	// quietLimit is how long an endpoint may be without a success before two
	// exhausted events disable it.
	quietLimit = 120 * time.Hour

	// successScan is how many of an endpoint's newest deliveries are searched
	// for its last success, once, when it begins to fail.
	successScan = 200
)

// judge stores what the newest attempt of del says of its endpoint. An endpoint
// in good health costs no write. Deliveries end at different times, so it may
// find e changed, and then looks again.
func (d *Deliverer) assess(ctx context.Context, e Endpoint, del Delivery) error {
	for range saveTries {
		assessed, err := d.assessment(ctx, e, del)
		if err != nil || assessed.same(e) {
			return err
		}
		_, err = d.store.SaveEndpoint(ctx, assessed)
		if err == nil || errors.Is(err, ErrNotFound) {
			return nil // deleted meanwhile: there is nothing to judge
		}
		if !errors.Is(err, ErrConflict) {
			return err
		}
		if e, err = d.store.Endpoint(ctx, e.Owner, e.ID); err != nil {
			return err
		}
		if e.Status != Enabled {
			return nil
		}
	}
	return fmt.Errorf("assessing, %d times: %w", saveTries, ErrConflict)
}

// same reports whether a verdict left e as it was.
func (e Endpoint) same(f Endpoint) bool {
	return e.Status == f.Status && e.QuietSince.Equal(f.QuietSince) && e.Exhausted == f.Exhausted
}

// verdict returns e after the newest attempt of del: trusted again after a
// success; disabled by a 410, or by an exhausted event that is not the first
// since the endpoint's last success, once that is quietLimit ago.
func (d *Deliverer) assessment(ctx context.Context, e Endpoint, del Delivery) (Endpoint, error) {
	if del.Status == Delivered {
		e.QuietSince, e.Exhausted = time.Time{}, ""
		return e, nil
	}
	if e.QuietSince.IsZero() {
		since, err := d.lastSuccess(ctx, e)
		if err != nil {
			return Endpoint{}, err
		}
		e.QuietSince = since
	}
	if a, ok := del.LastAttempt(); ok && a.StatusCode == http.StatusGone {
		e.Status = Disabled
	}
	if del.Status == Exhausted {
		another := e.Exhausted != "" && e.Exhausted != del.Event.ID
		if another && d.now().Sub(e.QuietSince) >= quietLimit {
			e.Status = Disabled
		}
		e.Exhausted = del.Event.ID
	}
	return e, nil
}

// lastSuccess returns when an endpoint that begins to fail last took a message
// since it was enabled, and the time it was enabled if it never did. When the
// newest deliveries do not say, the answer is now: an endpoint may be assessed
// late, but never early.
func (d *Deliverer) lastSuccess(ctx context.Context, e Endpoint) (time.Time, error) {
	recent, err := d.store.Deliveries(ctx, e.Owner, e.ID, time.Time{}, time.Time{}, successScan)
	if err != nil {
		return time.Time{}, err
	}
	last := e.EnabledAt
	found := len(recent) < successScan
	for _, r := range recent {
		if a, ok := r.LastAttempt(); ok && r.Status == Delivered {
			found = true
			if a.At.After(last) {
				last = a.At
			}
		}
	}
	if !found {
		return instant(d.now), nil
	}
	return last, nil
}
