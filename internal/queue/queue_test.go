package queue_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/google/go-cmp/cmp"

	"remit/internal/queue"
	"remit/internal/webhook"
)

type message struct {
	QueueURL     string `json:"QueueUrl"`
	MessageBody  string
	DelaySeconds int
	Group        string `json:"MessageGroupId"`
}

// job is one for the endpoint we_1.
const job = "test/mer_1/we_1/dlv_1"

// open returns a client of an SQS server that answers with status and keeps the
// messages it was sent.
func open(t *testing.T, status int) (client *sqs.Client, sent *[]message) {
	t.Helper()
	sent = new([]message)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var m message
		if err := json.Unmarshal(body, &m); err != nil || r.Header.Get("X-Amz-Target") != "AmazonSQS.SendMessage" {
			t.Errorf("unexpected request %s %s", r.Header.Get("X-Amz-Target"), body)
		}
		*sent = append(*sent, m)
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"MessageId":"1"}`)
	}))
	t.Cleanup(server.Close)
	return sqs.New(sqs.Options{
		BaseEndpoint: &server.URL, Region: "us-east-1", Retryer: aws.NopRetryer{},
		Credentials:                      credentials.NewStaticCredentialsProvider("a", "b", ""),
		DisableMessageChecksumValidation: true,
	}), sent
}

func TestJobs(t *testing.T) {
	client, sent := open(t, 200)
	jobs := queue.NewJobs(client, "https://queue/webhooks")
	for _, delay := range []time.Duration{0, time.Second, 1001 * time.Millisecond, webhook.QueueLimit} {
		if err := jobs.Enqueue(t.Context(), job, delay); err != nil {
			t.Fatal(err)
		}
	}
	if err := jobs.Enqueue(t.Context(), "nonsense", 0); err == nil {
		t.Error("a job that names no delivery was accepted")
	}
	for _, delay := range []time.Duration{-1, webhook.QueueLimit + 1} {
		if err := jobs.Enqueue(t.Context(), job, delay); err == nil {
			t.Errorf("a delay of %v was accepted", delay)
		}
	}
	m := func(delay int) message { return message{"https://queue/webhooks", job, delay, "we_1"} }
	if diff := cmp.Diff([]message{m(0), m(1), m(2), m(900)}, *sent); diff != "" { // never early
		t.Errorf("sent (-want +got):\n%s", diff)
	}
}

func TestHints(t *testing.T) {
	client, sent := open(t, 200)
	for _, delay := range []time.Duration{0, 200 * time.Millisecond, 12 * time.Second, time.Hour} {
		if err := queue.NewHints(client, "https://queue/settle", delay).Hint(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	m := func(delay int) message { return message{"https://queue/settle", "{}", delay, ""} }
	if diff := cmp.Diff([]message{m(0), m(1), m(12), m(900)}, *sent); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
}

func TestOutage(t *testing.T) {
	client, _ := open(t, 503)
	if err := queue.NewJobs(client, "https://queue/webhooks").Enqueue(t.Context(), job, 0); err == nil {
		t.Error("a job was accepted by a queue that is down")
	}
	if err := queue.NewHints(client, "https://queue/settle", 0).Hint(t.Context()); err == nil {
		t.Error("a hint was accepted by a queue that is down")
	}
}
