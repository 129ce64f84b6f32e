package queue_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/google/go-cmp/cmp"

	"github.com/remit-payouts/remit/internal/aws/queue"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/proof/must"
)

type message struct {
	QueueURL     string `json:"QueueUrl"`
	ID           string `json:"Id"`
	MessageBody  string
	DelaySeconds int
	Group        string `json:"MessageGroupId"`
	Entries      []message
}

// job is one of the merchant mer_1.
const job = "test/mer_1/we_1/dlv_1"

// A server is an SQS that answers with a status, after a second, and refuses jobs of the merchant "mer_refused".
type server struct {
	status int
	mu     sync.Mutex
	sent   []message
}

func (s *server) Do(r *http.Request) (*http.Response, error) {
	time.Sleep(time.Second)
	s.mu.Lock()
	defer s.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	var m message
	if err := json.Unmarshal(body, &m); err != nil {
		return nil, err
	}
	s.sent = append(s.sent, m)
	var taken, refused []map[string]string
	for _, e := range m.Entries {
		if e.Group == "mer_refused" {
			refused = append(refused, map[string]string{"Id": e.ID, "Code": "InternalError"})
		} else {
			taken = append(taken, map[string]string{"Id": e.ID, "MessageId": "1"})
		}
	}
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	w.WriteHeader(s.status)
	_ = json.NewEncoder(w).Encode(map[string]any{"MessageId": "1", "Successful": taken, "Failed": refused})
	return w.Result(), nil
}

func (s *server) client() *sqs.Client {
	return sqs.New(sqs.Options{
		HTTPClient: s, Region: "us-east-1", Retryer: aws.NopRetryer{},
		Credentials:                      aws.AnonymousCredentials{},
		DisableMessageChecksumValidation: true,
	})
}

func TestJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{status: 200}
		jobs := &queue.Jobs{Client: s.client(), URL: "https://queue/webhooks"}
		for _, delay := range []time.Duration{0, time.Second, 1001 * time.Millisecond, webhook.QueueLimit} {
			must.OK(t, jobs.Enqueue(t.Context(), job, delay))
		}
		if err := jobs.Enqueue(t.Context(), "nonsense", 0); err == nil {
			t.Error("a job that names no delivery was accepted")
		}
		for _, delay := range []time.Duration{-1, webhook.QueueLimit + 1} {
			if err := jobs.Enqueue(t.Context(), job, delay); err == nil {
				t.Errorf("a delay of %v was accepted", delay)
			}
		}
		m := func(delay int) message { // never early
			return message{QueueURL: "https://queue/webhooks", Entries: []message{{ID: "0", MessageBody: job, DelaySeconds: delay, Group: "mer_1"}}}
		}
		if diff := cmp.Diff([]message{m(0), m(1), m(2), m(900)}, s.sent); diff != "" {
			t.Errorf("sent (-want +got):\n%s", diff)
		}
	})
}

// TestJobsGoTogether: jobs enqueued during a request go in the next, up to ten and 256 KiB; each has its own outcome.
func TestJobsGoTogether(t *testing.T) {
	const n = 24
	for _, row := range []struct {
		name  string
		bytes int // of a job
		want  []int
	}{{"small jobs", 1, []int{1, 10, 10, 3}}, {"large jobs", 60 << 10, []int{1, 4, 4, 4, 4, 4, 3}}} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &server{status: 200}
				jobs := &queue.Jobs{Client: s.client(), URL: "https://queue/webhooks"}
				var callers sync.WaitGroup
				for i := range n {
					callers.Go(func() {
						time.Sleep(time.Duration(i)) // in order
						merchant := map[bool]string{true: "mer_refused", false: "mer_1"}[i%5 == 2]
						err := jobs.Enqueue(t.Context(), "test/"+merchant+"/we_1/"+strings.Repeat("d", row.bytes), 0)
						if refused := merchant == "mer_refused"; (err != nil) != refused {
							t.Errorf("job %d of %s: %v", i, merchant, err)
						}
					})
				}
				callers.Wait()
				var got []int
				for _, m := range s.sent {
					got = append(got, len(m.Entries))
				}
				if !slices.Equal(got, row.want) {
					t.Errorf("jobs in each request: %v, want %v", got, row.want)
				}
			})
		})
	}
}

func TestHints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{status: 200}
		for _, delay := range []time.Duration{0, 200 * time.Millisecond, 12 * time.Second, time.Hour} {
			must.OK(t, queue.NewHints(s.client(), "https://queue/settle", delay).Hint(t.Context()))
		}
		m := func(delay int) message {
			return message{QueueURL: "https://queue/settle", MessageBody: "{}", DelaySeconds: delay}
		}
		if diff := cmp.Diff([]message{m(0), m(1), m(12), m(900)}, s.sent); diff != "" {
			t.Errorf("sent (-want +got):\n%s", diff)
		}
	})
}

// TestOutage: nothing is taken for accepted by a queue that is down, or by a request that
// its caller gave up, and the next request is made all the same.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{status: 503}
		jobs := &queue.Jobs{Client: s.client(), URL: "https://queue/webhooks"}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for i, ctx := range []context.Context{t.Context(), ctx, t.Context()} {
			if err := jobs.Enqueue(ctx, job, 0); err == nil {
				t.Errorf("job %d was accepted", i)
			}
		}
		if err := queue.NewHints(s.client(), "https://queue/settle", 0).Hint(t.Context()); err == nil {
			t.Error("a hint was accepted by a queue that is down")
		}
		s.status = 200
		must.OK(t, jobs.Enqueue(t.Context(), job, 0))
	})
}
