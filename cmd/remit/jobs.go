package main

import (
	"context"
	"sync"
	"time"

	"remit/internal/webhook"
)

// perEndpoint bounds how many messages one endpoint is sent at once, so that
// one that hangs holds up nobody but itself.
const perEndpoint = 8

// jobs is the webhook queue of one process. Jobs live as long as it does: what
// is lost with it is found again by the delivery store.
type jobs struct {
	do func(ctx context.Context, job string) error

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu    sync.Mutex
	lanes map[string]chan struct{} // by endpoint
}

func newJobs() *jobs {
	ctx, cancel := context.WithCancel(context.Background())
	return &jobs{ctx: ctx, cancel: cancel, lanes: map[string]chan struct{}{}}
}

// Enqueue implements webhook.Queue. A job that fails is done again after a
// while, as SQS would.
func (q *jobs) Enqueue(_ context.Context, job string, delay time.Duration) error {
	if q.ctx.Err() != nil {
		return q.ctx.Err()
	}
	ref, err := webhook.ParseRef(job)
	if err != nil {
		return err
	}
	lane := q.lane(ref.Endpoint)
	q.wg.Go(func() {
		for wait := delay; q.sleep(wait); wait = 5 * time.Second {
			select {
			case lane <- struct{}{}:
			case <-q.ctx.Done():
				return
			}
			err := q.do(q.ctx, job)
			<-lane
			if err == nil {
				return
			}
		}
	})
	return nil
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
	if d <= 0 {
		return q.ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-q.ctx.Done():
		return false
	}
}

// close ends the workers.
func (q *jobs) close() {
	q.cancel()
	q.wg.Wait()
}
