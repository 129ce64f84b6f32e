package webhook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// A Log lists the deliveries of endpoints and resends them.
type Log struct {
	Store  Store
	Queue  Queue
	Now    func() time.Time
	Random io.Reader
}

// pageLook is the most deliveries that a page of one status reads, some megabytes of the longest.
const pageLook = 200

// Page returns an endpoint's deliveries, newest first and without their bodies: those behind the delivery after, "" for
// the newest, created from a time on, zero for any, at most limit of a status, "" for any, and the delivery after which
// it goes on, "" at its end. A page may be short, or empty, before the end. A deleted endpoint still has its log. What
// waits for an endpoint that is not enabled is Cancelled. ErrNotFound if the owner never had an endpoint of that id.
func (l *Log) Page(ctx context.Context, o Owner, endpoint string, status DeliveryStatus, from time.Time, after string,
	limit int) (page []Delivery, next string, err error) {
	look, to := limit+2, time.Time{}
	if status != "" {
		look = pageLook
	}
	if after != "" {
		ms, _ := strconv.ParseInt(fmt.Sprintf("%.12s", strings.TrimPrefix(after, deliveryPrefix)), 16, 64)
		to = time.UnixMilli(ms + 1)
	}
	e, err := known(ctx, l.Store, o, endpoint)
	if err != nil {
		return nil, "", err
	}
	for {
		read, err := l.Store.Deliveries(ctx, o, endpoint, from, to, look)
		if err != nil {
			return nil, "", fmt.Errorf("listing the deliveries of %s: %w", endpoint, err)
		}
		for _, d := range read {
			if after != "" && d.Delivery >= after {
				continue
			}
			if e.Status != Enabled && d.Status == Pending {
				d.Status, d.NextAttemptAt = Cancelled, time.Time{} // stored when its job comes
			}
			if len(page) == limit {
				return page, next, nil
			}
			if next = d.Delivery; status == "" || d.Status == status {
				page = append(page, d)
			}
		}
		if len(read) < look {
			return page, "", nil
		}
		if next != "" {
			return page, next, nil
		}
		look *= 2 // more than look were created within the millisecond of after
	}
}

// A search for failures reads deliveries created up to longestTry before they ended, FailedLook of them at most.
// The delays of all attempts come to 76 hours, and each may be twice as long, and a fifth more.
const (
	longestTry = 10 * 24 * time.Hour
	FailedLook = 20_000
	resendMost = 1000
)

// ErrTooMany reports a log that is too long to be searched for failures.
var ErrTooMany = errors.New("too many deliveries since then; name a later time")

// Failed returns the deliveries that ended exhausted or cancelled since a time, inclusive, oldest first and without
// their bodies. An event counts by its newest delivery alone. A pending one whose attempt was due before lost has
// lost its job, and counts too. ErrTooMany if there are more than look to read: a part could pass for all.
func (l *Log) Failed(ctx context.Context, o Owner, endpoint string, since, lost time.Time, look int) (failed []Delivery,
	err error) {
	seen, read := map[string]bool{}, 0
	for after := ""; ; {
		page, next, err := l.Page(ctx, o, endpoint, "", since.Add(-longestTry), after, 1000)
		if err != nil {
			return nil, err
		}
		if read += len(page); read > look {
			return nil, fmt.Errorf("searching the log of %s: %w", endpoint, ErrTooMany)
		}
		for _, d := range page {
			ended := (d.Status == Exhausted || d.Status == Cancelled) && !d.EndedAt.Before(since)
			overdue := d.Status == Pending && !d.Parked && d.NextAttemptAt.Before(lost)
			if !seen[d.Event.ID] && (ended || overdue) {
				failed = append(failed, d)
			}
			seen[d.Event.ID] = true
		}
		if after = next; next == "" {
			slices.Reverse(failed)
			return failed, nil
		}
	}
}

// ResendFailed resends the deliveries that Failed returns since a time, resendMost at most, and returns how many, and
// whether there are more. Another call goes on, also after an error. The errors are those of Resend and ErrTooMany.
func (l *Log) ResendFailed(ctx context.Context, o Owner, endpoint string, since time.Time) (count int, more bool, err error) {
	switch e, err := live(ctx, l.Store, o, endpoint); {
	case err != nil:
		return 0, false, err
	case e.Status != Enabled:
		return 0, false, fmt.Errorf("resending to %s: %w", endpoint, ErrDisabled)
	}
	failed, err := l.Failed(ctx, o, endpoint, since, time.Time{}, FailedLook)
	if err != nil {
		return 0, false, err
	}
	most := min(len(failed), resendMost)
	sent, err := l.ResendAll(ctx, failed[:most])
	return len(sent), len(failed) > most, err
}

// ResendAll resends deliveries, without those that the store has forgotten, and returns the new ones.
func (l *Log) ResendAll(ctx context.Context, deliveries []Delivery) (sent []Delivery, err error) {
	all := make([]Delivery, len(deliveries))
	var group errgroup.Group
	group.SetLimit(pushWidth)
	for i, d := range deliveries {
		group.Go(func() (err error) {
			if all[i], err = l.Resend(ctx, d.Owner, d.Endpoint, d.Delivery); errors.Is(err, ErrDeliveryNotFound) {
				return nil
			}
			return err
		})
	}
	err = group.Wait()
	return slices.DeleteFunc(all, func(d Delivery) bool { return d.Delivery == "" }), err
}

// Resend makes a new delivery of the same event, with the same event id and bytes, and returns it. Once Resend
// returned nil the delivery will be attempted, even if the queue is down. The errors are ErrNotFound (also for a
// deleted endpoint), ErrDeliveryNotFound and ErrDisabled.
func (l *Log) Resend(ctx context.Context, o Owner, endpoint, delivery string) (Delivery, error) {
	switch {
	case !endpointID.MatchString(endpoint):
		return Delivery{}, fmt.Errorf("resending a delivery: %w", ErrNotFound)
	case !deliveryIDs.MatchString(delivery):
		_, err := live(ctx, l.Store, o, endpoint)
		return Delivery{}, fmt.Errorf("resending a delivery of %s: %w", endpoint, cmp.Or(err, ErrDeliveryNotFound))
	}
	e, old, err := l.Store.Load(ctx, Ref{o, endpoint, delivery})
	switch {
	case e.Status == Deleted && (err == nil || errors.Is(err, ErrDeliveryNotFound)):
		return Delivery{}, fmt.Errorf("resending %s: %w", delivery, ErrNotFound)
	case err != nil:
		return Delivery{}, fmt.Errorf("resending a delivery of %s: %w", endpoint, err)
	case e.Status != Enabled:
		return Delivery{}, fmt.Errorf("resending %s: %w", delivery, ErrDisabled)
	}
	now := instant(l.Now)
	d := newDelivery(Ref{o, endpoint, deliveryID(now, drawn(l.Random, idBytes))}, old.Event)
	d.NextAttemptAt, d.CreatedAt, d.Parked = now, now, true
	if err := l.Store.AddDelivery(ctx, d); err != nil {
		return Delivery{}, fmt.Errorf("resending %s: %w", delivery, err)
	}
	// PushDue makes a job of the parked delivery within a minute. This one is only quicker, and its loss no error.
	_ = l.Queue.Enqueue(ctx, d.Ref.String(), 0)
	return d, nil
}
