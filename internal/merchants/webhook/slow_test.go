package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/remit-payouts/remit/internal/aws/emf"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/sandbox/memory"
)

// slow publishes n events to an endpoint at hook that answers each post after took, and does the jobs that are due.
func (w *fixture) slow(n int, took time.Duration, status int) {
	w.t.Helper()
	w.took, w.answers[hook] = took, statuses(status)
	for range n {
		w.mustPublish(w.numbered(len(w.jobs) + len(w.posts)))
	}
	w.work()
}

// parked returns a stack with an endpoint that has just been parked.
func parked(t *testing.T, took time.Duration, status int) (*fixture, webhook.Endpoint) {
	t.Helper()
	w := newFixture(t)
	e := w.register(mine, hook)
	for range 3 {
		w.slow(1, took, status)
		w.jobs = nil // of the second attempts, which are not of interest
	}
	w.has(3, 0)
	return w, e
}

// TestSlowEndpointsAreParked: whatever they answer, and not before the third time in a row.
func TestSlowEndpointsAreParked(t *testing.T) {
	for _, row := range []struct {
		name   string
		took   time.Duration
		status int
		posts  int // of four events
	}{
		{"no answer in time", 15 * time.Second, 0, 3},
		{"a late success", 14 * time.Second, 200, 3},
		{"a late refusal", 5 * time.Second, 500, 3},
		{"a quick refusal", 4999 * time.Millisecond, 500, 4},
		{"a quick success", 4999 * time.Millisecond, 200, 4},
	} {
		t.Run(row.name, func(t *testing.T) {
			w, _ := parked(t, row.took, row.status)
			w.slow(1, row.took, row.status)
			if len(w.posts) != row.posts {
				t.Errorf("%d posts, want %d", len(w.posts), row.posts)
			}
		})
	}
	t.Run("not in a row", func(t *testing.T) {
		w := newFixture(t)
		w.register(mine, hook)
		for _, took := range []time.Duration{15, 15, 1, 15, 15, 1, 15} {
			w.slow(1, took*time.Second, 200)
		}
		w.has(7, 0)
	})
}

// TestPutOff: a delivery waits as long again as it has waited since its event, with a tenth
// of jitter, and ends when its attempts would have ended.
func TestPutOff(t *testing.T) {
	const patience = 75*time.Hour + 35*time.Minute + 5*time.Second
	for name, test := range map[string]struct {
		age   time.Duration
		first bool
		want  time.Duration // 0: it ends
	}{
		"a first attempt that was published late": {time.Hour, true, 66 * time.Second},
		"it has waited an hour":                   {time.Hour, false, 66 * time.Minute},
		"it has waited for long":                  {patience, false, 26*time.Hour + 24*time.Minute},
		"it has waited for too long":              {patience + time.Millisecond, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w, e := parked(t, 15*time.Second, 0)
			ev := w.numbered(9)
			ev.At = w.now().Add(-test.age)
			d := webhook.Delivery{Ref: webhook.Ref{Owner: mine, Endpoint: e.ID, Delivery: webhook.FirstID(w.now())},
				Event: ev, Status: webhook.Pending, NextAttemptAt: w.now(), CreatedAt: ev.At}
			if test.first {
				d.NextAttemptAt = ev.At
			}
			must.OK(t, w.store.AddDelivery(t.Context(), d))
			must.OK(t, w.deliverer.Deliver(t.Context(), d.Ref.String()))
			if test.want == 0 {
				w.logged(e, webhook.Exhausted, 0)
			} else if got := w.logged(e, webhook.Pending, 0).NextAttemptAt.Sub(w.now()); got != test.want {
				t.Errorf("put off for %v, want %v", got, test.want)
			}
		})
	}
}

// TestAPostFromBeforeTheParking changes nothing when it ends late after it.
func TestAPostFromBeforeTheParking(t *testing.T) {
	for _, status := range []int{200, 500} {
		w := newFixture(t)
		e := w.register(mine, hook)
		for range 2 {
			w.slow(1, 15*time.Second, status)
			w.jobs = nil
		}
		w.mustPublish(w.numbered(8))
		w.mustPublish(w.numbered(9))
		job, _ := w.pop()
		nested := false
		post := sending(func(ctx context.Context, url string, h http.Header, b []byte) (webhook.Answer, error) {
			if other, ok := w.pop(); ok && !nested {
				nested = true
				must.OK(t, w.deliverer.Deliver(ctx, other))
			}
			return w.Post(ctx, url, h, b)
		})
		must.OK(t, webhook.NewDeliverer(w.store, w, post, w.meter, w.now, half).Deliver(t.Context(), job))
		want := w.now().Add(-15*time.Second + time.Minute)
		if got, err := w.store.Endpoint(t.Context(), mine, e.ID); err != nil || !nested || got.Slow != 3 || !got.RetryAt.Equal(want) {
			t.Errorf("%d: %d slow attempts, next at %v, want %v; %v", status, got.Slow, got.RetryAt, want, err)
		}
	}
}

// TestProbes: one delivery at a time is posted to a parked endpoint, less and less often
// while it hangs, and after a late success as soon as it has had as much time to rest.
func TestProbes(t *testing.T) {
	for _, row := range []struct {
		name   string
		took   time.Duration
		status int
		waits  []time.Duration // from a probe's begin, or a late success, to the next probe
	}{
		{"no answer", 15 * time.Second, 0, []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute,
			8 * time.Minute, 16 * time.Minute, 16 * time.Minute}},
		{"late successes", 14 * time.Second, 200, []time.Duration{14 * time.Second, 14 * time.Second, 14 * time.Second}},
	} {
		t.Run(row.name, func(t *testing.T) {
			w, e := parked(t, row.took, row.status)
			next := w.now().Add(time.Minute)
			for i, wait := range row.waits {
				for _, at := range []time.Time{next.Add(-time.Millisecond), next} {
					w.clock, w.jobs = at, nil
					w.slow(2, row.took, row.status)
				}
				if len(w.posts) != 4+i {
					t.Fatalf("%d posts by probe %d", len(w.posts), i+1)
				}
				next = w.posts[3+i].at.Add(wait)
				if row.status == 200 {
					next = next.Add(row.took)
				}
			}
			w.change(e, webhook.Change{URL: new("https://other.example")})
			w.slow(2, time.Second, 200)
			if n := len(w.to("https://other.example")); n != 2 {
				t.Errorf("%d posts to another URL", n)
			}
		})
	}
}

// TestOneProbeAtATime: of two processes that find a probe due at the same moment, one posts.
func TestOneProbeAtATime(t *testing.T) {
	w, e := parked(t, 15*time.Second, 0)
	w.clock = w.now().Add(time.Minute)
	w.mustPublish(w.numbered(8))
	w.mustPublish(w.numbered(9))
	raced := false
	w.faults.plan = func(_ int, name string) fault {
		if name == "SaveEndpoint" && !raced {
			raced = true
			other, _ := w.pop()
			must.OK(t, webhook.NewDeliverer(w.store, w, w, w.meter, w.now, half).Deliver(t.Context(), other))
		}
		return none
	}
	job, _ := w.pop()
	must.OK(t, w.deliverer.Deliver(t.Context(), job))
	if !raced || len(w.posts) != 4 {
		t.Errorf("raced: %v; %d posts", raced, len(w.posts))
	}
	if got, err := w.store.Endpoint(t.Context(), mine, e.ID); err != nil || got.Slow != 4 {
		t.Errorf("%d slow attempts, %v", got.Slow, err)
	}
}

// TestAProbeThatCannotBeClaimed is tried again.
func TestAProbeThatCannotBeClaimed(t *testing.T) {
	w, e := parked(t, 15*time.Second, 0)
	w.clock = w.now().Add(time.Minute)
	w.mustPublish(w.numbered(9))
	w.outage("SaveEndpoint", before)
	job, _ := w.pop()
	if err := w.deliverer.Deliver(t.Context(), job); !errors.Is(err, errFault) {
		t.Errorf("delivering: %v", err)
	}
	w.has(3, 0)
	if d := w.newest(e); d.Event.ID == "evt_9" {
		t.Errorf("it is put off until %v", d.NextAttemptAt)
	}
}

// TestAParkedEndpointsEventsEnd when their attempts would have, and disable it as those do.
func TestAParkedEndpointsEventsEnd(t *testing.T) {
	w, e := parked(t, 15*time.Second, 0)
	w.mustPublish(w.numbered(9))
	last := w.now()
	for range 300 {
		w.slow(1, 15*time.Second, 0) // takes most probes
		w.until(w.now().Add(time.Hour))
		w.clock = w.now().Add(time.Hour)
		if w.status(e) == webhook.Disabled {
			break
		}
	}
	if age := w.now().Sub(last); age < 120*time.Hour || w.status(e) != webhook.Disabled {
		t.Errorf("the endpoint is %s after %v", w.status(e), age)
	}
}

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
		deliverer := webhook.NewDeliverer(s, s, s, emf.New(io.Discard, "", time.Now), time.Now, half)
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
	for name, answers := range map[string]time.Duration{"hanging": time.Hour, "answers after 14 s": 14 * time.Second} {
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
