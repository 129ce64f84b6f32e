package webhook_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/proof/must"
)

func TestAnEventGoesToWhoSubscribed(t *testing.T) {
	w := newFixture(t)
	w.register(mine, "https://all.example")
	w.register(mine, "https://confirmed.example", webhook.PaymentConfirmed)
	w.register(mine, "https://failed.example", webhook.PaymentFailed)
	w.register(mine, "https://both.example", webhook.PaymentConfirmed, webhook.PaymentFailed)
	w.register(mine, "https://test.example", webhook.TestType)
	w.register(webhook.Owner{Merchant: "mer_2", Mode: "live"}, "https://other.example")
	w.register(webhook.Owner{Merchant: "mer_1", Mode: "test"}, "https://mode.example")
	w.mustPublish(event)
	w.drain()
	var got []string
	for _, p := range w.posts {
		got = append(got, p.url)
	}
	slices.Sort(got)
	if want := []string{"https://all.example", "https://both.example", "https://confirmed.example"}; !slices.Equal(got, want) {
		t.Errorf("sent to %v, want %v", got, want)
	}
}

// TestMinedGoesToWhoNamesIt: an endpoint for all events is not for payment.mined.
func TestMinedGoesToWhoNamesIt(t *testing.T) {
	w := newFixture(t)
	w.register(mine, "https://all.example")
	for _, want := range []bool{false, true} {
		if named, err := webhook.NewPublisher(w.store, w).Named(t.Context(), mine, webhook.PaymentMined); err != nil || named != want {
			t.Errorf("named: %t, %v, want %t", named, err, want)
		}
		w.register(mine, "https://mined.example", webhook.PaymentFailed, webhook.PaymentMined)
	}
	e := event
	e.Type = webhook.PaymentMined
	w.mustPublish(e)
	w.drain()
	if len(w.posts) != 2 || w.posts[0].url != "https://mined.example" || w.posts[1].url != "https://mined.example" {
		t.Errorf("posts: %v", w.posts)
	}
}

// TestOneReadForAllEndpoints: publishing costs one read and one job per endpoint, and a healthy endpoint's item, which
// would be the hottest of the table, is not written.
func TestOneReadForAllEndpoints(t *testing.T) {
	for n := range 4 {
		w := newFixture(t)
		for i := range n {
			w.register(mine, fmt.Sprintf("https://%d.example", i))
		}
		w.mustPublish(event)
		want := []string{"Endpoints"}
		for range n {
			want = append(want, "Enqueue")
		}
		if got := w.faults.names; !slices.Equal(got, want) {
			t.Errorf("%d endpoints: %v", n, got)
		}
		w.drain()
		for range n {
			want = append(want, "Load", "Post", "Record")
		}
		if got := w.faults.names; !slices.Equal(got, want) {
			t.Errorf("%d endpoints, delivered: %v", n, got)
		}
	}
}

// TestAnEventOfAnyBodyAndTimeIsPublished: settlement keeps an event until it is
// published, so an event that cannot be would stay for ever.
func TestAnEventOfAnyBodyAndTimeIsPublished(t *testing.T) {
	for body, at := range map[string]time.Time{``: noon, `null`: {}, `{"timestamp":"soon"}`: time.Unix(-1, 0),
		"\xff": noon.Add(time.Nanosecond)} {
		w := newFixture(t)
		e, off := w.register(mine, hook), w.register(mine, "https://off.example")
		w.change(off, disable)
		ev := event
		ev.At, ev.Body = at, []byte(body)
		for range 2 {
			w.mustPublish(ev)
		}
		w.drain()
		if len(w.posts) == 0 || w.posts[0].body != body || w.newest(e).Status != webhook.Delivered {
			t.Errorf("%q: %d posts", body, len(w.posts))
		}
		if d := w.newest(off); !d.CreatedAt.Equal(at.Truncate(time.Millisecond)) {
			t.Errorf("%q: the delivery of a disabled endpoint was created at %v", body, d.CreatedAt)
		}
	}
}

// TestAMachineWithAFastClockDoesNotDelayTheFirstAttempt: the settling machine's clock sets the event's time.
func TestAMachineWithAFastClockDoesNotDelayTheFirstAttempt(t *testing.T) {
	w := newFixture(t)
	w.register(mine, hook)
	w.clock = noon.Add(-10 * time.Minute)
	w.mustPublish(event)
	w.work()
	w.has(1, 0)
}

func TestPushDueMakesEachJobOnce(t *testing.T) {
	w := newFixture(t)
	e := w.register(mine, hook)
	w.answers[hook] = statuses(500)
	for i := range 5 {
		w.mustPublish(w.numbered(i))
	}
	for len(w.posts) < 15 {
		w.work()
		w.clock = w.now().Add(time.Second)
	}
	at := w.newest(e).NextAttemptAt.Add(time.Minute)
	w.clock = at
	for _, want := range []int{2, 2, 1, 0} {
		n, err := w.pusher.PushDue(t.Context(), at, 2)
		if err != nil || n != want {
			t.Errorf("pushed %d, %v; want %d", n, err, want)
		}
		if want > 0 && (w.meter.oldest < time.Minute || w.meter.oldest > 2*time.Minute) || want == 0 && w.meter.oldest != 0 {
			t.Errorf("oldest due for %v", w.meter.oldest)
		}
	}
	w.has(15, 5)
}

// TestPushDueTakesTurns: a backlog of one merchant holds up no delivery of another, not even the newest of all.
func TestPushDueTakesTurns(t *testing.T) {
	w := newFixture(t)
	for n := range 100 {
		o := webhook.Owner{Merchant: "mer_busy", Mode: "live"}
		if n == 99 {
			o.Merchant = "mer_quiet"
		}
		must.OK(t, w.store.AddDelivery(t.Context(), webhook.Delivery{
			Ref: webhook.Ref{Owner: o, Endpoint: "we_1", Delivery: fmt.Sprintf("dlv_%032x", n)}, Status: webhook.Pending,
			NextAttemptAt: noon.Add(time.Duration(n) * time.Second), Parked: true,
		}))
	}
	n := must.Get(w.pusher.PushDue(t.Context(), noon.Add(time.Hour), 2))(t)
	var pushed []string
	for _, j := range w.jobs {
		pushed = append(pushed, strings.Split(j.text, "/")[1])
	}
	slices.Sort(pushed)
	if diff := cmp.Diff([]string{"mer_busy", "mer_quiet"}, pushed); diff != "" || n != 2 {
		t.Errorf("%d pushed, of (-want +got):\n%s", n, diff)
	}
}
