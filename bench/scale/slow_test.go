package scale_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"remit/internal/boot"
	"remit/internal/memory"
	"remit/internal/plan"
	"remit/internal/webhook"
)

// A slowRun is ten minutes of deliver-webhook, or two hours in live mode: healthy and slow
// deliveries a second, the latter to ten endpoints of one merchant, which answer after a time
// or hang. Healthy endpoints of a live run take each message at the fourth attempt.
type slowRun struct {
	healthy, slow float64
	live          bool
	answers       time.Duration // of the slow endpoints; SendTimeout or more: they hang
	unparked      bool          // the engine forgets which endpoints are slow
}

const (
	slowFor    = 10 * time.Minute
	pollers    = 20   // WebhookConcurrency
	duePage    = 1000 // of check-receipts
	storeTime  = time.Duration(plan.StoreSeconds * float64(time.Second))
	answerTime = 5 * time.Millisecond // of a healthy endpoint
)

// A slowStack is the webhook queue, oldest job first, between the real engines and the
// real batches of a Lambda function. The queue is not a fair one, which the results must
// not rest on.
type slowStack struct {
	slowRun
	*memory.Webhooks
	mu    sync.Mutex
	jobs  []string
	ready chan struct{}

	waits []float64 // of the healthy deliveries, in ms
	tries map[string]int
	posts int // to slow endpoints
}

// Enqueue implements webhook.Queue.
func (s *slowStack) Enqueue(_ context.Context, job string, delay time.Duration) error {
	if delay <= 0 { // a timer for each job is more than the race detector can take
		s.add(job)
		return nil
	}
	time.AfterFunc(delay, func() { s.add(job) })
	return nil
}

func (s *slowStack) add(job string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.jobs = append(s.jobs, job)
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

// poll receives batches and has them handled, until ctx ends.
func (s *slowStack) poll(ctx context.Context, handle func(context.Context, events.SQSEvent) (events.SQSEventResponse, error)) {
	for ctx.Err() == nil {
		s.mu.Lock()
		n := min(len(s.jobs), plan.WebhookBatch)
		batch := s.jobs[:n]
		s.jobs = s.jobs[n:]
		s.mu.Unlock()
		if n == 0 {
			select {
			case <-ctx.Done():
			case <-s.ready:
			}
			continue
		}
		var ev events.SQSEvent
		for i, job := range batch {
			ev.Records = append(ev.Records, events.SQSMessage{MessageId: fmt.Sprint(i), Body: job})
		}
		life, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		answer, _ := handle(life, ev)
		cancel()
		for _, failed := range answer.BatchItemFailures {
			var i int
			_, _ = fmt.Sscan(failed.ItemIdentifier, &i)
			_ = s.Enqueue(ctx, batch[i], 3*time.Minute)
		}
	}
}

// Post implements webhook.Sender.
func (s *slowStack) Post(_ context.Context, url string, _ http.Header, body []byte) (webhook.Answer, error) {
	if !strings.Contains(url, "slow") {
		time.Sleep(answerTime)
		at, _ := time.Parse(time.RFC3339Nano, string(body))
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.tries[string(body)]++; s.live && s.tries[string(body)] < 4 {
			return webhook.Answer{StatusCode: 500}, nil
		}
		s.waits = append(s.waits, float64(time.Since(at))/1e6)
		return webhook.Answer{StatusCode: 200}, nil
	}
	s.mu.Lock()
	s.posts++
	s.mu.Unlock()
	if s.answers < webhook.SendTimeout {
		time.Sleep(s.answers)
		return webhook.Answer{StatusCode: 200}, nil
	}
	time.Sleep(webhook.SendTimeout)
	return webhook.Answer{}, &webhook.SendError{Reason: "the endpoint did not answer within 15 seconds", Err: context.DeadlineExceeded}
}

// Load implements webhook.DeliveryStore, at the distance of DynamoDB.
func (s *slowStack) Load(ctx context.Context, r webhook.Ref) (webhook.Endpoint, webhook.Delivery, error) {
	time.Sleep(storeTime)
	e, d, err := s.Webhooks.Load(ctx, r)
	if s.unparked {
		e.Slow, e.RetryAt = 0, time.Time{}
	}
	return e, d, err
}

// Record implements webhook.DeliveryStore, at the same distance.
func (s *slowStack) Record(ctx context.Context, d webhook.Delivery, attempts int) (webhook.Delivery, error) {
	time.Sleep(storeTime)
	return s.Webhooks.Record(ctx, d, attempts)
}

// Check implements webhook.Checker.
func (*slowStack) Check(context.Context, string) error { return nil }

// run returns the stack after its time.
func (r slowRun) run(t *testing.T) *slowStack {
	s, mode, length := &slowStack{slowRun: r, Webhooks: memory.NewWebhooks(), tries: map[string]int{}}, "test", slowFor
	if r.live {
		mode, length = "live", 12*slowFor
	}
	synctest.Test(t, func(t *testing.T) {
		s.ready = make(chan struct{}, pollers)
		ctx, stop := context.WithCancel(t.Context())
		random := rand.NewChaCha8([32]byte{1})
		rng := rand.New(random)
		registry := webhook.NewRegistry(s, s, time.Now, random)
		for merchant, urls := range map[string]int{"healthy": 1, "slow": 10} {
			for n := range urls {
				if _, err := registry.Register(ctx, webhook.Owner{Merchant: merchant, Mode: mode}, webhook.Registration{URL: fmt.Sprint("https://", merchant, n)}); err != nil {
					t.Fatal(err)
				}
			}
		}
		var work sync.WaitGroup
		deliverer := webhook.NewDeliverer(s, s, s, webhook.NoMeter{}, time.Now, func() float64 {
			s.mu.Lock()
			defer s.mu.Unlock()
			return rng.Float64()
		})
		for range pollers {
			work.Go(func() { s.poll(ctx, boot.Batches(deliverer.Deliver)) })
		}
		work.Go(func() {
			pusher := webhook.NewPusher(s, s, webhook.NoMeter{})
			for ctx.Err() == nil {
				if _, err := pusher.PushDue(ctx, time.Now(), duePage); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
				select {
				case <-ctx.Done():
				case <-time.After(time.Minute):
				}
			}
		})
		publisher := webhook.NewPublisher(s, s)
		for merchant, rate := range map[string]float64{"healthy": r.healthy, "slow": r.slow / 10} {
			if rate == 0 {
				continue
			}
			arrivals := rand.New(rand.NewPCG(2, 3))
			work.Go(func() {
				for n := 0; ; n++ {
					time.Sleep(time.Duration(arrivals.ExpFloat64() / rate * float64(time.Second)))
					if ctx.Err() != nil {
						return
					}
					ev := webhook.Event{Merchant: merchant, Mode: mode, ID: fmt.Sprint("evt_", n), Type: webhook.PaymentConfirmed, At: time.Now(), Body: []byte(time.Now().Format(time.RFC3339Nano))}
					if err := publisher.Publish(ctx, ev); err != nil {
						t.Error(err)
					}
				}
			})
		}
		time.Sleep(length)
		stop()
		work.Wait()
	})
	return s
}

// TestSlowEndpoints: the slow endpoints of one merchant delay no other merchant's events,
// which they would if they were not parked.
func TestSlowEndpoints(t *testing.T) {
	if *curves {
		fmt.Printf("goos: %s\ngoarch: %s\ncpu: virtual time\n", runtime.GOOS, runtime.GOARCH)
	}
	for _, healthy := range []float64{1, 15} {
		alone := quantile(slowRun{healthy: healthy}.run(t).waits, 0.5)
		for _, row := range []struct {
			name    string
			slow    float64
			answers time.Duration
		}{{"hanging", 1.5, webhook.SendTimeout}, {"hanging", 14, webhook.SendTimeout}, {"answering_after_14_s", 14, 14 * time.Second}} {
			r := slowRun{healthy: healthy, slow: row.slow, answers: row.answers}
			parked := r.run(t)
			r.unparked = true
			p50, unparked := quantile(parked.waits, 0.5), quantile(r.run(t).waits, 0.5)
			if p50/alone > 1.2 || unparked/alone < 2 {
				t.Errorf("%v healthy and %v %s a second: the median wait is %.2f of the run without, unparked %.2f", healthy, row.slow, row.name, p50/alone, unparked/alone)
			}
			fmt.Printf("BenchmarkSlow/healthy=%v/slow=%v/slow_ones=%s 1 %.4g x-p50 %.4g x-p50-unparked %.4g p50-ms %.4g p50-ms-unparked %.4g p99-ms %.4g slow-posts/s\n",
				healthy, row.slow, row.name, p50/alone, unparked/alone, p50, unparked, quantile(parked.waits, 0.99), float64(parked.posts)/slowFor.Seconds())
		}
	}
	// The fourth attempt is due after 28 to 42 minutes, and found within one more.
	of := slowRun{healthy: 0.1, slow: 14, answers: webhook.SendTimeout, live: true}
	waits := of.run(t).waits
	worst, arrived := quantile(waits, 1)/60_000, len(waits)
	if worst > 45 || arrived < 450 {
		t.Errorf("beside an endpoint that hangs for two hours %d events arrived at the fourth attempt, the last after %.0f min", arrived, worst)
	}
	fmt.Printf("BenchmarkSlow/healthy=%v/slow=%v/slow_ones=hanging_for_two_hours 1 %.4g retried-min %v retried\n", of.healthy, of.slow, worst, arrived)
}
