package main

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"remit/internal/webhook"
)

const (
	// perEndpoint bounds how many messages one endpoint is sent at once, so
	// that one that hangs holds up nobody but itself.
	perEndpoint = 8
	// jobRetry is how long a job that could not be done waits for the next try.
	jobRetry = 5 * time.Second
)

// A jobStore remembers jobs beyond the life of the process.
type jobStore interface {
	Add(ctx context.Context, job string, due time.Time) error
	Done(ctx context.Context, job string, due time.Time) error
	All(ctx context.Context) (map[string]time.Time, error)
}

// jobs is the webhook queue of one process.
type jobs struct {
	do   func(ctx context.Context, job string) error
	keep jobStore // nil where the deliveries are in memory too
	log  *slog.Logger

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu    sync.Mutex
	lanes map[string]chan struct{} // by endpoint
}

func newJobs(keep jobStore, log *slog.Logger) *jobs {
	ctx, cancel := context.WithCancel(context.Background())
	return &jobs{keep: keep, log: log, ctx: ctx, cancel: cancel, lanes: map[string]chan struct{}{}}
}

// Enqueue implements webhook.Queue.
func (q *jobs) Enqueue(ctx context.Context, job string, delay time.Duration) error {
	due := time.Now().Add(delay)
	if q.keep != nil {
		if err := q.keep.Add(ctx, job, due); err != nil {
			return err
		}
	}
	return q.spawn(job, due)
}

// recall enqueues what an earlier process left.
func (q *jobs) recall(ctx context.Context) error {
	if q.keep == nil {
		return nil
	}
	left, err := q.keep.All(ctx)
	if err != nil {
		return err
	}
	for job, due := range left {
		if err := q.spawn(job, due); err != nil {
			return err
		}
	}
	return nil
}

// spawn does the job when it is due, and again while it fails, as SQS would.
func (q *jobs) spawn(job string, due time.Time) error {
	if q.ctx.Err() != nil {
		return q.ctx.Err()
	}
	ref, err := webhook.ParseRef(job)
	if err != nil {
		return err
	}
	lane := q.lane(ref.Endpoint)
	q.wg.Go(func() {
		for pause := time.Until(due); q.sleep(pause); pause = jobRetry {
			select {
			case lane <- struct{}{}:
			case <-q.ctx.Done():
				return
			}
			err := q.once(job, due)
			<-lane
			if err == nil {
				return
			}
			q.log.Warn("webhook job", "err", err)
		}
	})
	return nil
}

// once does a job, then forgets it: a crash in between does it twice.
func (q *jobs) once(job string, due time.Time) error {
	if err := q.do(q.ctx, job); err != nil && !errors.Is(err, webhook.ErrDeliveryNotFound) {
		return err
	}
	if q.keep == nil {
		return nil
	}
	return q.keep.Done(q.ctx, job, due)
}

func (q *jobs) lane(endpoint string) chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.lanes[endpoint] == nil {
		q.lanes[endpoint] = make(chan struct{}, perEndpoint)
	}
	return q.lanes[endpoint]
}

// sleep reports false when the process ends first.
func (q *jobs) sleep(d time.Duration) bool {
	if d > 0 {
		wait(q.ctx, d)
	}
	return q.ctx.Err() == nil
}

// close ends the workers.
func (q *jobs) close() {
	q.cancel()
	q.wg.Wait()
}
