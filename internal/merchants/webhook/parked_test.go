package webhook_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/sandbox/memory"
)

// A shared stack is the queue of webhooks, oldest job first, with as many batches at once as
// deliver-webhook takes by default. The queue is not a fair one, which the outcome must not
// rest on. A healthy endpoint answers at once; a slow one after a time, or never.
type shared struct {
	*memory.Webhooks
	answers  time.Duration // of slow endpoints
	unparked bool          // the engine forgets which endpoints are slow

	mu    sync.Mutex
	jobs  []string
	ready chan struct{}
	waits []time.Duration // of healthy deliveries
}

// Enqueue implements webhook.Queue.
func (s *shared) Enqueue(_ context.Context, job string, delay time.Duration) error {
	time.AfterFunc(delay, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.jobs = append(s.jobs, job)
		select {
		case s.ready <- struct{}{}:
		default:
		}
	})
	return nil
}

// poll takes batches of ten, and the next one when all of it is done, until ctx ends.
func (s *shared) poll(ctx context.Context, deliver func(context.Context, string) error) {
	for ctx.Err() == nil {
		s.mu.Lock()
		n := min(len(s.jobs), 10)
		batch := s.jobs[:n:n]
		s.jobs = s.jobs[n:]
		s.mu.Unlock()
		if n == 0 {
			select {
			case <-ctx.Done():
			case <-s.ready:
			}
			continue
		}
		var work sync.WaitGroup
		life, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		for _, job := range batch {
			work.Go(func() {
				if deliver(life, job) != nil {
					_ = s.Enqueue(ctx, job, 3*time.Minute)
				}
			})
		}
		work.Wait()
		cancel()
	}
}

// Post implements webhook.Sender.
func (s *shared) Post(_ context.Context, url string, _ http.Header, body []byte) (webhook.Answer, error) {
	if strings.Contains(url, "slow") {
		time.Sleep(min(s.answers, webhook.SendTimeout))
		if s.answers > webhook.SendTimeout {
			return webhook.Answer{}, &webhook.SendError{Reason: "no answer", Err: context.DeadlineExceeded}
		}
		return webhook.Answer{StatusCode: 200}, nil
	}
	time.Sleep(5 * time.Millisecond)
	at, _ := time.Parse(time.RFC3339Nano, string(body))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waits = append(s.waits, time.Since(at))
	return webhook.Answer{StatusCode: 200}, nil
}

// Load implements webhook.DeliveryStore.
func (s *shared) Load(ctx context.Context, r webhook.Ref) (webhook.Endpoint, webhook.Delivery, error) {
	e, d, err := s.Webhooks.Load(ctx, r)
	if s.unparked {
		e.Slow, e.RetryAt = 0, time.Time{}
	}
	return e, d, err
}

// median returns the median wait of 15 healthy deliveries a second beside so many events a
// second of a merchant with ten slow endpoints.
func (s *shared) median(t *testing.T, slow float64) time.Duration {
	s.Webhooks = memory.NewWebhooks()
	synctest.Test(t, func(t *testing.T) {
		s.ready = make(chan struct{}, 20)
		ctx, stop := context.WithCancel(t.Context())
		registry := webhook.NewRegistry(s, checker{}, time.Now, rand.NewChaCha8([32]byte{1}))
		deliverer := webhook.NewDeliverer(s, s, s, webhook.NoMeter{}, time.Now, half)
		publisher := webhook.NewPublisher(s, s)
		var work sync.WaitGroup
		for range cap(s.ready) {
			work.Go(func() { s.poll(ctx, deliverer.Deliver) })
		}
		for _, m := range []struct {
			name      string
			endpoints int
			rate      float64
		}{{"healthy", 1, 15}, {"slow", 10, slow}} {
			for n := range m.endpoints {
				must.Get(registry.Register(ctx, webhook.Owner{Merchant: m.name, Mode: "test"},
					webhook.Registration{URL: fmt.Sprint("https://", m.name, n)}))(t)
			}
			arrivals := rand.New(rand.NewPCG(2, 3))
			work.Go(func() {
				for n := 0; m.rate > 0 && ctx.Err() == nil; n++ {
					ev := webhook.Event{Merchant: m.name, Mode: "test", ID: fmt.Sprint("evt_", n), Type: webhook.PaymentConfirmed, At: time.Now(),
						Body: []byte(time.Now().Format(time.RFC3339Nano))}
					if err := publisher.Publish(ctx, ev); err != nil {
						t.Error(err)
					}
					time.Sleep(time.Duration(arrivals.ExpFloat64() / m.rate * float64(time.Second)))
				}
			})
		}
		time.Sleep(5 * time.Minute)
		stop()
		work.Wait()
	})
	slices.Sort(s.waits)
	return s.waits[len(s.waits)/2]
}

// TestSlowEndpointsDelayNobody: the slow endpoints of one merchant delay no other merchant's
// events, which they would if they were not parked.
func TestSlowEndpointsDelayNobody(t *testing.T) {
	alone := new(shared).median(t, 0)
	for name, answers := range map[string]time.Duration{"hanging": time.Hour, "answering after 14 s": 14 * time.Second} {
		t.Run(name, func(t *testing.T) {
			parked := (&shared{answers: answers}).median(t, 1.4)
			unparked := (&shared{answers: answers, unparked: true}).median(t, 1.4)
			if 10*parked > 12*alone || unparked < 2*alone {
				t.Errorf("the median wait is %v beside 14 slow deliveries a second and %v without; %v if none is parked", parked, alone, unparked)
			}
			t.Logf("the median wait is %.2f times as long as without slow deliveries; %.0f times if none is parked",
				parked.Seconds()/alone.Seconds(), unparked.Seconds()/alone.Seconds())
		})
	}
}
