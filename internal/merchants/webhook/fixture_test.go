package webhook_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/sandbox/interpose"
	"github.com/remit-payouts/remit/internal/sandbox/memory"
)

var (
	noon  = time.Date(2026, time.January, 2, 12, 0, 0, 0, time.UTC)
	mine  = webhook.Owner{Merchant: "mer_1", Mode: "live"}
	event = webhook.Event{
		Merchant: mine.Merchant, Mode: mine.Mode, ID: "evt_1", Type: webhook.PaymentConfirmed, At: noon,
		Body: []byte(`{"id":"evt_1","type":"payment.confirmed","timestamp":"2026-01-02T12:00:00.000Z","data":{"reference":"Söđ 🧁"}}`),
	}
)

// A checker has one answer to every URL; nil accepts it.
type checker struct{ answer error }

func (c checker) Check(context.Context, string) error { return c.answer }

// A fixture is a stack whose clock only tests move. It is the stack's queue and
// sender as well, with the answers that a test gives to its receivers.
type fixture struct {
	t       *testing.T
	clock   time.Time
	mu      sync.Mutex // guards jobs and made
	jobs    []job
	made    []string // every job that was ever enqueued
	store   *memory.Webhooks
	ports   interpose.Webhooks // store, with faults
	faults  *injector
	meter   *meter
	answers map[string][]webhook.Answer // by URL; the last one repeats, none means 200, status 0 no answer
	posts   []post
	took    time.Duration // by every post

	registry  *webhook.Registry
	log       *webhook.Log
	publisher *webhook.Publisher
	deliverer *webhook.Deliverer
	pusher    *webhook.Pusher
	tester    *webhook.Tester
}

// A job waits in the queue until its time has come.
type job struct {
	text string
	at   time.Time
}

type post struct {
	url    string
	at     time.Time
	header http.Header
	body   string
	answer webhook.Answer
}

func newFixture(t *testing.T) *fixture {
	w := &fixture{
		t: t, clock: noon, store: memory.NewWebhooks(), faults: &injector{},
		meter: &meter{}, answers: map[string][]webhook.Answer{},
	}
	w.ports = interpose.Webhooks{Store: w.store, Around: w.faults.around}
	w.registry = &webhook.Registry{Store: w.store, URLs: checker{}, Now: w.now, Random: rand.Reader}
	w.log = &webhook.Log{Store: w.store, Queue: w, Now: w.now, Random: rand.Reader}
	w.publisher = &webhook.Publisher{Store: w.ports, Queue: w}
	w.deliverer = w.delivererOf(w.ports, w)
	w.pusher = &webhook.Pusher{Store: w.ports, Queue: w, Meter: w.meter}
	w.tester = &webhook.Tester{Store: webhook.Sealed{Store: w.store}, Sender: w, Now: w.now, Random: rand.Reader}
	return w
}

func (w *fixture) delivererOf(store webhook.Store, sender webhook.Sender) *webhook.Deliverer {
	return &webhook.Deliverer{Store: store, Queue: w, Sender: sender, Meter: w.meter, Now: w.now,
		Jitter: func() float64 { return 0.5 }} // which adds nothing
}

func (w *fixture) now() time.Time { return w.clock }

func (w *fixture) Enqueue(_ context.Context, text string, delay time.Duration) error {
	return w.faults.do("Enqueue", func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.jobs, w.made = append(w.jobs, job{text, w.clock.Add(delay)}), append(w.made, text)
	})
}

// pop removes and returns the first job whose time has come.
func (w *fixture) pop() (string, bool) {
	i := slices.IndexFunc(w.jobs, func(j job) bool { return !j.at.After(w.clock) })
	if i < 0 {
		return "", false
	}
	text := w.jobs[i].text
	w.jobs = slices.Delete(w.jobs, i, i+1)
	return text, true
}

// outage lets every call of a method fail for an hour.
func (w *fixture) outage(method string, how fault) {
	w.faults.plan = func(_ int, called string) fault {
		if called == method && w.clock.Before(noon.Add(time.Hour)) {
			return how
		}
		return none
	}
}

// A Post that fails before has not posted; a Post that fails after has, and the endpoint's answer was lost.
func (w *fixture) Post(_ context.Context, url string, header http.Header, body []byte) (a webhook.Answer, err error) {
	if lost := w.faults.do("Post", func() { a, err = w.answer(url, header, body) }); lost != nil {
		return webhook.Answer{}, &webhook.SendError{Reason: "the connection was reset", Err: lost}
	}
	return a, err
}

func (w *fixture) answer(url string, header http.Header, body []byte) (webhook.Answer, error) {
	p := post{url: url, at: w.now(), header: header, body: string(body), answer: webhook.Answer{StatusCode: 200}}
	if list := w.answers[url]; len(list) > 0 {
		p.answer = list[0]
		if len(list) > 1 {
			w.answers[url] = list[1:]
		}
	}
	w.posts = append(w.posts, p)
	w.clock = w.clock.Add(w.took)
	if p.answer.StatusCode == 0 {
		return webhook.Answer{}, &webhook.SendError{Reason: "no answer in time", Err: context.DeadlineExceeded}
	}
	return p.answer, nil
}

// statuses makes answers of status codes.
func statuses(codes ...int) (answers []webhook.Answer) {
	for _, c := range codes {
		answers = append(answers, webhook.Answer{StatusCode: c})
	}
	return answers
}

// register adds an endpoint for url; types as in a Registration.
func (w *fixture) register(o webhook.Owner, url string, types ...string) webhook.Endpoint {
	w.t.Helper()
	return must.Get(w.registry.Register(w.t.Context(), o, webhook.Registration{URL: url, EventTypes: types}))(w.t)
}

func (w *fixture) publish(ev webhook.Event) error { return w.publisher.Publish(w.t.Context(), ev) }

func (w *fixture) mustPublish(ev webhook.Event) {
	w.t.Helper()
	must.OK(w.t, w.publish(ev))
}

// registered returns a stack with one endpoint, at hook.
func registered(t *testing.T) (*fixture, webhook.Endpoint) {
	t.Helper()
	w := newFixture(t)
	return w, w.register(mine, hook)
}

// published is registered with event published to the endpoint, which answers with the status codes; none means 200.
func published(t *testing.T, codes ...int) (*fixture, webhook.Endpoint) {
	t.Helper()
	w, e := registered(t)
	w.answers[hook] = statuses(codes...)
	w.mustPublish(event)
	return w, e
}

// delivered is published with the delivery done.
func delivered(t *testing.T, codes ...int) (*fixture, webhook.Endpoint) {
	t.Helper()
	w, e := published(t, codes...)
	w.drain()
	return w, e
}

// work does the jobs whose time has come. A job that fails comes back after 3 minutes.
func (w *fixture) work() {
	w.t.Helper()
	for {
		text, ok := w.pop()
		if !ok {
			return
		}
		w.faults.restart()
		if err := w.deliverer.Deliver(w.t.Context(), text); err != nil {
			if !errors.Is(err, errFault) {
				w.t.Errorf("job %s: %v", text, err)
			}
			w.jobs = append(w.jobs, job{text, w.clock.Add(3 * time.Minute)})
		}
	}
}

// until runs the stack, pushing every minute, until the given time or until nothing is left to do.
func (w *fixture) until(end time.Time) {
	w.t.Helper()
	for {
		w.work()
		w.faults.restart()
		if due, _ := w.store.Due(w.t.Context(), w.now(), 1); len(due) == 0 {
			// A call that would find no delivery is not worth a fault.
		} else if err := w.pusher.PushDue(w.t.Context(), w.now(), 100); err != nil && !errors.Is(err, errFault) {
			w.t.Error(err)
		}
		w.work()
		minute := w.now().Truncate(time.Minute).Add(time.Minute)
		for _, j := range w.jobs {
			if j.at.Before(minute) {
				minute = j.at
			}
		}
		if minute.After(end) || w.idle() {
			return
		}
		w.clock = minute
	}
}

// drain runs the stack until nothing is left to do, for ten days at most.
func (w *fixture) drain() {
	w.t.Helper()
	w.until(w.now().Add(240 * time.Hour))
	if !w.idle() {
		w.t.Error("still busy after ten days")
	}
}

func (w *fixture) idle() bool {
	parked, _ := w.store.Due(context.Background(), w.now().Add(1000*time.Hour), 1)
	return len(w.jobs) == 0 && len(parked) == 0
}

// listed returns the newest deliveries of an endpoint.
func (w *fixture) listed(o webhook.Owner, endpoint string) ([]webhook.Delivery, error) {
	list, _, err := w.log.Page(w.t.Context(), o, endpoint, "", time.Time{}, "", 100)
	return list, err
}

// newest returns the newest delivery of an endpoint.
func (w *fixture) newest(e webhook.Endpoint) webhook.Delivery {
	w.t.Helper()
	list, err := w.listed(e.Owner, e.ID)
	if err != nil || len(list) == 0 {
		w.t.Fatalf("deliveries of %s: %v, %v", e.ID, list, err)
	}
	return list[0]
}

// logged returns the newest delivery of an endpoint, which must have the given status and number of attempts.
func (w *fixture) logged(e webhook.Endpoint, s webhook.DeliveryStatus, attempts int) webhook.Delivery {
	w.t.Helper()
	d := w.newest(e)
	if d.Status != s || len(d.Attempts) != attempts {
		w.t.Errorf("delivery %s after %d attempts, want %s after %d", d.Status, len(d.Attempts), s, attempts)
	}
	if s != webhook.Pending && (d.Parked || !d.NextAttemptAt.IsZero() || d.EndedAt.IsZero()) {
		w.t.Errorf("delivery %s at %v, parked: %v, next attempt %v", s, d.EndedAt, d.Parked, d.NextAttemptAt)
	}
	return d
}

// has fails the test unless so many posts were made and so many jobs wait.
func (w *fixture) has(posts, jobs int) {
	w.t.Helper()
	if len(w.posts) != posts || len(w.jobs) != jobs {
		w.t.Errorf("%d posts, %d jobs; want %d and %d", len(w.posts), len(w.jobs), posts, jobs)
	}
}

// status returns the status of an endpoint.
func (w *fixture) status(e webhook.Endpoint) webhook.Status {
	w.t.Helper()
	e = must.Get(w.store.Endpoint(w.t.Context(), e.Owner, e.ID))(w.t)
	return e.Status
}

// stored stores the delivery of the oldest job, as the first touch of a parked endpoint's would, and returns it.
func (w *fixture) stored() webhook.Delivery {
	w.t.Helper()
	d, _, err := webhook.ParseJob(w.made[0])
	must.OK(w.t, err)
	must.OK(w.t, w.store.AddDelivery(w.t.Context(), d))
	return d
}

// resend resends a delivery of an endpoint.
func (w *fixture) resend(e webhook.Endpoint, d webhook.Delivery) error {
	return must.Err(w.log.Resend(w.t.Context(), e.Owner, e.ID, d.Delivery))
}

// change updates an endpoint.
func (w *fixture) change(e webhook.Endpoint, c webhook.Change) {
	w.t.Helper()
	must.Get(w.registry.Update(w.t.Context(), e.Owner, e.ID, c))(w.t)
}

// to returns the posts that went to a URL.
func (w *fixture) to(url string) []post {
	return slices.DeleteFunc(slices.Clone(w.posts), func(p post) bool { return p.url != url })
}

// verified fails the test unless a receiver with the secret accepts p.
func (w *fixture) verified(p post, s webhook.Secret) {
	w.t.Helper()
	wh := must.Get(standardwebhooks.NewWebhook(s.Reveal()))(w.t)
	if err := wh.VerifyIgnoringTimestamp([]byte(p.body), p.header); err != nil {
		w.t.Errorf("post to %s: %v", p.url, err)
	}
	if got, want := p.header.Get(webhook.HeaderTimestamp), fmt.Sprint(p.at.Unix()); got != want {
		w.t.Errorf("timestamp %s, want %s", got, want)
	}
}

// A meter keeps the numbers in order, and the newest value of each.
type meter struct {
	names  []string
	values map[string]float64
}

func (m *meter) Add(name string, value float64) {
	if m.values == nil {
		m.values = map[string]float64{}
	}
	m.names, m.values[name] = append(m.names, name), value
}

var errFault = errors.New("injected fault")

// A fault says how an effect fails.
type fault string

// The ways to fail. A crash fails every later effect too, until restart.
const (
	none        fault = ""
	before      fault = "before"       // not applied, and reported as failed
	after       fault = "after"        // applied, but the answer is lost
	crashBefore fault = "crash before" // the process ends before the effect
	crashAfter  fault = "crash after"  // the process ends after it
)

// An injector makes chosen effects of the ports that it is around fail.
type injector struct {
	// plan returns how the n-th effect fails, counted from 0, which is a call of the named method; nil fails nothing.
	// It may cause effects itself.
	plan func(n int, name string) fault

	mu    sync.Mutex
	names []string // of the methods called, in order
	dead  bool
}

func (i *injector) restart() { i.dead = false }

// Around makes a call, or lets it fail.
func (i *injector) around(ctx context.Context, c interpose.Call, apply func(context.Context)) error {
	i.mu.Lock()
	n, how := len(i.names), none
	i.names = append(i.names, c.Op)
	i.mu.Unlock()
	if i.plan != nil {
		how = i.plan(n, c.Op)
	}
	i.mu.Lock()
	if i.dead {
		how = before
	}
	i.dead = i.dead || how == crashBefore || how == crashAfter
	i.mu.Unlock()
	if how != before && how != crashBefore {
		apply(ctx)
	}
	if how != none {
		return fmt.Errorf("%s: %w", c.Op, errFault)
	}
	return nil
}

// Do makes an effect of no store, or lets it fail.
func (i *injector) do(name string, effect func()) error {
	return i.around(context.Background(), interpose.Call{Op: name}, func(context.Context) { effect() })
}
