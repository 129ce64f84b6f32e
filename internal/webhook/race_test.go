package webhook_test

import (
	"context"
	"crypto/rand"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"remit/internal/memory"
	"remit/internal/webhook"
)

// A crowd is a queue and a sender for many goroutines at once.
type crowd struct {
	status int
	posts  atomic.Int32
	jobs   atomic.Int32
	gate   sync.WaitGroup // holds every answer until all have posted
}

func (c *crowd) Enqueue(context.Context, string, time.Duration) error {
	c.jobs.Add(1)
	return nil
}

func (c *crowd) Post(context.Context, string, http.Header, []byte) (webhook.Answer, error) {
	c.posts.Add(1)
	c.gate.Done()
	c.gate.Wait()
	return webhook.Answer{StatusCode: c.status}, nil
}

// TestCopiesOfAJobAtTheSameTime: all of them post, one attempt counts, and one
// job follows.
func TestCopiesOfAJobAtTheSameTime(t *testing.T) {
	for status, want := range map[int]struct {
		status webhook.DeliveryStatus
		jobs   int32
	}{500: {webhook.Pending, 2}, 200: {webhook.Delivered, 1}, 410: {webhook.Cancelled, 1}} {
		const copies = 20
		store, c := memory.NewWebhooks(), &crowd{status: status}
		registry := webhook.NewRegistry(store, anything{}, time.Now, rand.Reader)
		e, err := registry.Register(t.Context(), mine, webhook.Registration{URL: hook})
		must(t, err)
		must(t, webhook.NewPublisher(store, c).Publish(t.Context(), event))
		list, err := store.Deliveries(t.Context(), mine, e.ID, time.Time{}, time.Time{}, 2)
		if err != nil || len(list) != 1 {
			t.Fatalf("%d deliveries, %v", len(list), err)
		}
		c.gate.Add(copies)
		d := webhook.NewDeliverer(store, c, c, webhook.NoMeter{}, time.Now, half)
		var wg sync.WaitGroup
		for range copies {
			wg.Go(func() {
				if err := d.Deliver(context.WithoutCancel(t.Context()), list[0].Ref.String()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		_, got, err := store.Load(t.Context(), list[0].Ref)
		if err != nil || got.Status != want.status || len(got.Attempts) != 1 || c.posts.Load() != copies || c.jobs.Load() != want.jobs {
			t.Errorf("%d: %s, %d attempts, %d posts, %d jobs, %v", status, got.Status, len(got.Attempts), c.posts.Load(), c.jobs.Load(), err)
		}
	}
}
