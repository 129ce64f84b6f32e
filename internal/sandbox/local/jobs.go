package local

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/dispatch"
	"github.com/remit-payouts/remit/internal/payments/settlement"
)

const (
	// perEndpoint bounds how many messages one endpoint is sent at once, so that
	// an endpoint that hangs holds up no other.
	perEndpoint = 8
	// jobRetry is how long a job that failed waits for the next try.
	jobRetry = 5 * time.Second
)

// jobs is the webhook queue of one process. It implements webhook.Queue.
type jobs struct {
	do  func(ctx context.Context, job string) error
	log *slog.Logger

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	lanes sync.Map // from endpoints to channels with a place for each message under way
}

func newJobs(log *slog.Logger) *jobs {
	ctx, cancel := context.WithCancel(context.Background())
	return &jobs{log: log, ctx: ctx, cancel: cancel}
}

// Enqueue does the job after the delay, and again while it fails, as SQS would.
func (q *jobs) Enqueue(_ context.Context, job string, delay time.Duration) error {
	if q.ctx.Err() != nil {
		return q.ctx.Err()
	}
	of, _, err := webhook.ParseJob(job)
	if err != nil {
		return err
	}
	kept, _ := q.lanes.LoadOrStore(of.Endpoint, make(chan struct{}, perEndpoint))
	lane := kept.(chan struct{})
	q.wg.Go(func() {
		for pause := delay; ; pause = jobRetry {
			settlement.Sleep(q.ctx, pause)
			select {
			case lane <- struct{}{}:
			case <-q.ctx.Done():
			}
			if q.ctx.Err() != nil {
				return
			}
			err := q.do(q.ctx, job)
			<-lane
			if err == nil || errors.Is(err, webhook.ErrDeliveryNotFound) {
				return
			}
			q.log.Warn("webhook job", "err", err)
		}
	})
	return nil
}

func (q *jobs) close() {
	q.cancel()
	q.wg.Wait()
}

// A parkingStore keeps each pending delivery in the due index until it ends, so that a process finds there the
// deliveries whose jobs died with the process before it. On AWS jobs outlive processes, and the index holds only
// deliveries that wait for longer than a job can.
type parkingStore struct {
	webhook.Store
	jobs webhook.Queue
}

func (s parkingStore) AddDelivery(ctx context.Context, d webhook.Delivery) error {
	d.Parked = d.Status == webhook.Pending
	return s.Store.AddDelivery(ctx, d)
}

// Enqueue implements webhook.Queue for a publisher. It stores the event first, because the job ends with the process.
func (s parkingStore) Enqueue(ctx context.Context, job string, delay time.Duration) error {
	d, whole, err := webhook.ParseJob(job)
	if err == nil && whole {
		err = s.AddDelivery(ctx, d)
	}
	if err != nil {
		return err
	}
	return s.jobs.Enqueue(ctx, d.Ref.String(), delay)
}

// Record implements webhook.DeliveryStore. It makes a job for a delivery that the deliverer parks, since only recall
// reads the index. A job that arrives early is enqueued again by the deliverer.
func (s parkingStore) Record(ctx context.Context, d webhook.Delivery, attempts int) (webhook.Delivery, error) {
	jobless := d.Parked
	d.Parked = d.Status == webhook.Pending
	stored, err := s.Store.Record(ctx, d, attempts)
	if err == nil && jobless {
		err = s.jobs.Enqueue(ctx, d.Ref.String(), webhook.QueueLimit)
	}
	return stored, err
}

// Unpark implements webhook.DueStore: only the end of a delivery takes it out of the index.
func (parkingStore) Unpark(context.Context, webhook.Due) error { return nil }

// recall makes jobs for all deliveries that an earlier process left pending,
// however long they wait: the deliverer sends none early.
func (s parkingStore) recall(ctx context.Context, now time.Time) error {
	const limit = 1_000_000
	return (&webhook.Pusher{Store: s, Queue: s.jobs, Meter: unmetered{}}).PushDue(ctx, now.AddDate(1, 0, 0), limit)
}

const (
	settlePeriod = time.Minute      // the schedule's
	settleRun    = 55 * time.Second // the function's timeout
	// settlerName is the same for every run: a run that was killed leaves claims
	// on wallets, and the next run must not wait for them to end.
	settlerName = "local"
)

// hints starts a check-receipts run of each rail soon. A channel holds one hint, which stands for any number of them.
type hints []chan struct{}

func (h hints) Hint(context.Context) error {
	for _, rail := range h {
		select {
		case rail <- struct{}{}:
		default:
		}
	}
	return nil
}

// settleLoop settles one rail: a payment that stays pending on another rail keeps a run busy, and would hold it up.
func settleLoop(ctx context.Context, settler *settlement.Settler, hinted <-chan struct{}) {
	ticker := time.NewTicker(settlePeriod)
	defer ticker.Stop()
	for ctx.Err() == nil {
		run, cancel := context.WithTimeout(ctx, settleRun)
		if _, err := settler.Run(run, settlerName); err != nil && ctx.Err() == nil {
			settler.Log.Warn("settling", "err", err)
		}
		if _, err := settler.Refill(run); err != nil && ctx.Err() == nil {
			settler.Log.Warn("refilling", "err", err)
		}
		cancel()
		select {
		case <-ctx.Done():
		case <-ticker.C:
		case <-hinted:
		}
	}
}

// releasePeriod is how often due proposals are released: a merchant who tries them waits for one.
const releasePeriod = 2 * time.Second

func releaseLoop(ctx context.Context, proposals *dispatch.Proposals, log *slog.Logger) {
	for ctx.Err() == nil {
		if _, _, err := proposals.Run(ctx); err != nil && ctx.Err() == nil {
			log.Warn("releasing proposals", "err", err)
		}
		settlement.Sleep(ctx, releasePeriod)
	}
}

// unmetered is a webhook.Meter that counts nothing.
type unmetered struct{}

func (unmetered) Add(string, float64) {}
