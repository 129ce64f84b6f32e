package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/tabletest"
	"github.com/remit-payouts/remit/internal/sandbox/interpose"
)

const hook = "https://hook.example/in"

var (
	disable = webhook.Change{Status: new(webhook.Disabled)}
	enable  = webhook.Change{Status: new(webhook.Enabled)}
)

// waits returns the times between the posts to url.
func (w *fixture) waits(url string) []time.Duration {
	var waits []time.Duration
	posts := w.to(url)
	for i := 1; i < len(posts); i++ {
		waits = append(waits, posts[i].at.Sub(posts[i-1].at))
	}
	return waits
}

func TestAnEventArrivesAsItWasWritten(t *testing.T) {
	w, e := delivered(t)
	w.has(1, 0)
	p := w.posts[0]
	if p.body != string(event.Body) {
		t.Errorf("body %s", p.body)
	}
	w.verified(p, e.Secret)
	want := http.Header{
		"Content-Type": {"application/json"}, "User-Agent": {"Remit-Webhooks/1"},
		"Webhook-Id": {"evt_1"}, "Webhook-Timestamp": {fmt.Sprint(noon.Unix())}, "Webhook-Signature": p.header["Webhook-Signature"],
	}
	if diff := cmp.Diff(want, p.header); diff != "" {
		t.Error(diff)
	}
	must.OK(t, w.deliverer.Deliver(t.Context(), w.newest(e).Ref.String())) // a copy of its job
	w.has(1, 0)
}

// TestSchedule holds the waits to the table in the merchants' documentation, give
// or take the minute that pushing a parked delivery may add.
func TestSchedule(t *testing.T) {
	text := must.Get(os.ReadFile("../../../docs/webhooks.md"))(t)
	var all []time.Duration
	for _, row := range regexp.MustCompile(`\| (\d+) (s|m|h)(econd|inute|our)s?\b`).FindAllStringSubmatch(string(text), -1) {
		all = append(all, must.Get(time.ParseDuration(row[1]+row[2]))(t))
	}
	for _, test := range []struct {
		mode string
		want []time.Duration
	}{{"live", all}, {"test", all[:3]}} {
		t.Run(test.mode, func(t *testing.T) {
			w := newFixture(t)
			e := w.register(webhook.Owner{Merchant: "mer_1", Mode: test.mode}, hook)
			w.answers[hook] = statuses(500)
			ev := event
			ev.Mode = test.mode
			w.mustPublish(ev)
			w.drain()
			near := cmp.Comparer(func(a, b time.Duration) bool { return a == b || a > 15*time.Minute && (a-b).Abs() <= time.Minute })
			if diff := cmp.Diff(test.want, w.waits(hook), near); diff != "" {
				t.Errorf("waits (-want +got):\n%s", diff)
			}
			if d := w.logged(e, webhook.Exhausted, len(test.want)+1); !d.NextAttemptAt.IsZero() {
				t.Errorf("another attempt at %v", d.NextAttemptAt)
			}
			if got := fmt.Sprint(w.meter.names); strings.Count(got, "Webhooks") != 1 || !strings.HasSuffix(got, "WebhooksExhausted]") {
				t.Errorf("counted %v", got)
			}
		})
	}
}

// TestNextAttempt looks at one failed attempt of each number and kind.
func TestNextAttempt(t *testing.T) {
	words := map[string]string{"in 7 minutes": noon.Add(7 * time.Minute).Format(http.TimeFormat),
		"an hour ago": noon.Add(-time.Hour).Format(http.TimeFormat)}
	tabletest.Run(t, words, func(t *testing.T, c tabletest.Case) {
		failed, status := must.Get(strconv.Atoi(c.In[0]))(t), must.Get(strconv.Atoi(c.In[1]))(t)
		jitter := must.Get(strconv.ParseFloat(c.In[3], 64))(t)
		w, e := registered(t)
		by := w.delivererOf(w.store, w)
		by.Meter, by.Jitter = &meter{}, func() float64 { return jitter }
		w.mustPublish(event)
		d := w.stored()
		for i := range failed {
			d.Attempts = append(d.Attempts, webhook.Attempt{At: noon, StatusCode: 500})
			must.Get(w.store.Record(t.Context(), d, i))(t)
		}
		w.answers[hook] = []webhook.Answer{{StatusCode: status, RetryAfter: c.In[2]}}
		must.OK(t, by.Deliver(t.Context(), d.Ref.String()))
		if got := w.newest(e).NextAttemptAt.Sub(noon); got != must.Get(time.ParseDuration(c.Want))(t) {
			t.Errorf("next attempt in %v, want %s", got, c.Want)
		}
	})
}

// TestAJobThatComesEarlyWaits: a copy of a job must not use an attempt up.
func TestAJobThatComesEarlyWaits(t *testing.T) {
	w, e := published(t, 500, 500, 500, 200)
	w.work()
	must.OK(t, w.deliverer.Deliver(t.Context(), w.newest(e).Ref.String()))
	w.has(1, 2)
	w.drain()
	if diff := cmp.Diff([]time.Duration{5 * time.Second, 5 * time.Minute, 30 * time.Minute}, w.waits(hook)); diff != "" {
		t.Error(diff)
	}
}

func TestAJobForAnEndpointThatIsSentNothingIsDropped(t *testing.T) {
	for _, test := range []struct {
		name string
		end  func(*fixture, webhook.Endpoint)
	}{
		{"disabled", func(w *fixture, e webhook.Endpoint) { w.change(e, disable) }},
		{"deleted", func(w *fixture, e webhook.Endpoint) { must.OK(t, w.registry.Delete(t.Context(), e.Owner, e.ID)) }},
	} {
		for _, failed := range []int{0, 1, 4} {
			t.Run(fmt.Sprintf("%s after %d attempts", test.name, failed), func(t *testing.T) {
				w, e := published(t, 500)
				for len(w.posts) < failed {
					w.until(w.now())
					w.clock = w.now().Add(time.Second)
				}
				test.end(w, e)
				if failed > 0 { // the first attempt stores the delivery
					if d := w.newest(e); d.Status != webhook.Cancelled || !d.NextAttemptAt.IsZero() {
						t.Errorf("at once its log shows it %s, with an attempt at %v", d.Status, d.NextAttemptAt)
					}
				}
				w.drain()
				w.has(failed, 0)
				w.logged(e, webhook.Cancelled, failed)
			})
		}
	}
}

func TestAPoisonedJobIsAnError(t *testing.T) {
	w := newFixture(t)
	for _, job := range []string{"", "live/mer_1/we_1/", "live/mer_1/we_1/dlv_1/more",
		"live/mer_1/we_1/dlv_1/evt_1/payment.confirmed/noon/e30", "live/mer_1/we_1/dlv_1/evt_1/payment.confirmed/1/="} {
		if err := w.deliverer.Deliver(t.Context(), job); !errors.Is(err, webhook.ErrJob) {
			t.Errorf("%q: %v", job, err)
		}
	}
	if err := w.deliverer.Deliver(t.Context(), "live/mer_1/we_1/dlv_1"); !errors.Is(err, webhook.ErrDeliveryNotFound) {
		t.Error(err)
	}
	w.has(0, 0)
}

// TestAJobIsNotBegunWithoutTimeForIt: a function that ends while it waits for an
// endpoint's answer would have posted without recording the attempt.
func TestAJobIsNotBegunWithoutTimeForIt(t *testing.T) {
	const whole = webhook.SendTimeout + 5*time.Second // and the attempt's record
	for left, want := range map[time.Duration]error{whole - 1: context.DeadlineExceeded, whole: nil} {
		w, _ := published(t)
		w.clock = time.Now() // which a deadline must not have passed
		ctx, cancel := context.WithDeadline(t.Context(), w.now().Add(left))
		defer cancel()
		if err := w.deliverer.Deliver(ctx, w.made[0]); !errors.Is(err, want) || want == nil && len(w.posts) != 1 {
			t.Errorf("%v left: %v", left, err)
		}
	}
}

func TestTheLogShowsWhatHappened(t *testing.T) {
	w, e := registered(t)
	w.took = 1500 * time.Millisecond
	w.answers[hook] = []webhook.Answer{
		{StatusCode: 500, Body: []byte("a" + strings.Repeat("é", 600))},
		{StatusCode: 302},
		{StatusCode: 404, Body: []byte("a\xffb\xff")},
		{StatusCode: 204},
	}
	w.mustPublish(event)
	w.drain()
	d := w.newest(e)
	want := []webhook.Attempt{
		{StatusCode: 500, Error: "the endpoint answered 500", Response: "a" + strings.Repeat("é", 511)},
		{StatusCode: 302, Error: "the endpoint answered 302; redirects are not followed"},
		{StatusCode: 404, Error: "the endpoint answered 404", Response: "a\uFFFDb\uFFFD"},
		{StatusCode: 204},
	}
	for i, p := range w.posts {
		want[i].At, want[i].Duration = p.at, w.took
	}
	if diff := cmp.Diff(want, d.Attempts); diff != "" {
		t.Error(diff)
	}
	if got := strings.Join(w.meter.names, " "); got != "Webhook5xx WebhookDuration Webhook3xx WebhookDuration Webhook4xx WebhookDuration "+
		"WebhookOldestDue Webhook2xx WebhookDuration WebhooksDelivered SecondsToDelivered" {
		t.Errorf("counted %s", got)
	}
}

// A sending is a sender that is a function.
type sending func(ctx context.Context, url string, header http.Header, body []byte) (webhook.Answer, error)

func (s sending) Post(ctx context.Context, url string, header http.Header, body []byte) (webhook.Answer, error) {
	return s(ctx, url, header, body)
}

// TestASuccessIsNotLostToACopy: copies of a job post at the same time. The last copy to post records its attempt first.
func TestASuccessIsNotLostToACopy(t *testing.T) {
	for name, test := range map[string]struct {
		answers  []int // from the copy that records first on
		status   webhook.DeliveryStatus
		attempts int
		jobs     int // in all
	}{
		"a failure first":            {[]int{500, 200}, webhook.Delivered, 2, 2},
		"the endpoint's end first":   {[]int{410, 200}, webhook.Delivered, 2, 1},
		"a success first":            {[]int{200, 500, 500}, webhook.Delivered, 1, 1},
		"only failures: one counts":  {[]int{500, 500, 500, 500}, webhook.Pending, 1, 2},
		"only successes: one counts": {[]int{200, 200, 200, 200}, webhook.Delivered, 1, 1},
		"only its end: one counts":   {[]int{410, 410, 410, 410}, webhook.Exhausted, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w, e := published(t, test.answers...)
			job, _ := w.pop()
			copies := 0
			var d *webhook.Deliverer
			d = w.delivererOf(w.store, sending(func(ctx context.Context, url string, h http.Header, body []byte) (webhook.Answer, error) {
				w.clock = w.clock.Add(1) // no two copies begin in one instant
				if copies++; copies < len(test.answers) {
					must.OK(t, d.Deliver(ctx, job))
				}
				return w.Post(ctx, url, h, body)
			}))
			must.OK(t, d.Deliver(t.Context(), job))
			w.has(len(test.answers), test.jobs-1)
			w.logged(e, test.status, test.attempts)
		})
	}
}

// TestWhatWasAnsweredIsRecorded: an answer is recorded even if the job's time is over when it comes.
func TestWhatWasAnsweredIsRecorded(t *testing.T) {
	w, e := published(t)
	ctx, end := context.WithCancel(t.Context())
	punctual := interpose.Webhooks{Store: w.store, Around: func(ctx context.Context, _ interpose.Call, apply func(context.Context)) error {
		apply(ctx)
		return ctx.Err() // as of a store on a network
	}}
	d := w.delivererOf(punctual, sending(func(ctx context.Context, url string, h http.Header, body []byte) (webhook.Answer, error) {
		defer end()
		return w.Post(ctx, url, h, body)
	}))
	must.OK(t, d.Deliver(ctx, w.made[0]))
	w.logged(e, webhook.Delivered, 1)
}
