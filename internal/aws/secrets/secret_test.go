package secrets_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/remit-payouts/remit/internal/aws/secrets"
	"github.com/remit-payouts/remit/internal/proof/tabletest"
)

// vault is a Secrets Manager with scripted answers.
type vault struct {
	answer atomic.Pointer[func() (int, string)]
	reads  atomic.Int32
	clock  atomic.Int64
	makes  int
}

func (v *vault) set(status int, body string) {
	f := func() (int, string) { return status, body }
	v.answer.Store(&f)
}

func (v *vault) now() time.Time { return time.Unix(0, v.clock.Load()) }

func open(t *testing.T) (*vault, *secrets.Secret[string]) {
	t.Helper()
	v := new(vault)
	v.clock.Store(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).UnixNano())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		v.reads.Add(1)
		status, body := (*v.answer.Load())()
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(server.Close)
	return v, secrets.Open(aws.Config{
		BaseEndpoint: &server.URL, Region: "us-east-1", Retryer: func() aws.Retryer { return aws.NopRetryer{} },
		Credentials: aws.AnonymousCredentials{},
	}, "wallets", v.now, func(value []byte) (string, error) {
		v.makes++
		if string(value) == "bad" {
			return "", errUnusable
		}
		return string(value), nil
	})
}

var errUnusable = errors.New("unusable")

// TestGet: the parsed value is kept for minutes, and outlives an outage and a value of which
// nothing can be made, neither of which is hammered.
func TestGet(t *testing.T) {
	const outage, denied, missing = `{"__type":"InternalServiceError"}`, `{"__type":"AccessDeniedException"}`,
		`{"__type":"ResourceNotFoundException"}`
	type step struct {
		after   time.Duration
		status  int
		answers string
		want    string // "": an error
		reads   int32
		makes   int
	}
	one, two, bad := `{"SecretString":"one"}`, `{"SecretString":"two"}`, `{"SecretString":"bad"}`
	errs := map[string]error{missing: secrets.ErrMissing, `{}`: secrets.ErrMissing, `{"SecretString":""}`: secrets.ErrMissing, bad: errUnusable}
	for why, steps := range map[string][]step{
		"kept":   {{0, 200, one, "one", 1, 1}, {secrets.KeepFor - 1, 200, two, "one", 1, 1}, {1, 200, two, "two", 2, 2}},
		"same":   {{0, 200, one, "one", 1, 1}, {secrets.KeepFor, 200, one, "one", 2, 1}},
		"binary": {{0, 200, `{"SecretBinary":"b25l"}`, "one", 1, 1}},
		"an outage after it": {{0, 200, one, "one", 1, 1}, {secrets.KeepFor, 500, outage, "one", 2, 1}, {0, 500, outage,
			"one", 2, 1}, {time.Hour, 500, outage, "one", 3, 1}, {15 * time.Second, 200, two, "two", 4, 2}},
		"an outage before it":  {{0, 400, denied, "", 1, 0}, {0, 200, one, "one", 2, 1}},
		"no such secret":       {{0, 400, missing, "", 1, 0}, {0, 200, one, "one", 2, 1}, {secrets.KeepFor, 400, missing, "one", 3, 1}},
		"an empty value":       {{0, 200, `{"SecretString":""}`, "", 1, 0}, {0, 200, two, "two", 2, 1}},
		"no value of any sort": {{0, 200, `{}`, "", 1, 0}, {0, 200, two, "two", 2, 1}},
		"a bad value after it": {{0, 200, one, "one", 1, 1}, {secrets.KeepFor, 200, bad, "one", 2, 2},
			{0, 200, two, "one", 2, 2}, {15 * time.Second, 200, two, "two", 3, 3}},
		"a bad value before it": {{0, 200, bad, "", 1, 1}, {0, 200, one, "one", 2, 2}},
	} {
		v, s := open(t)
		for i, step := range steps {
			v.clock.Add(int64(step.after))
			v.set(step.status, step.answers)
			got, err := s.Get(t.Context())
			if got != step.want || (err == nil) != (step.want != "") || step.want == "" && !errors.Is(err,
				errs[step.answers]) && step.answers != denied || v.reads.Load() != step.reads || v.makes != step.makes {
				t.Errorf("%s, step %d: Get = %q, %v after %d reads, %d makes; want %+v", why, i, got, err, v.reads.Load(), v.makes, step)
			}
		}
	}
}

func TestManyCallersShareARead(t *testing.T) {
	v, s := open(t)
	v.set(200, `{"SecretString":"one"}`)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Get(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("under a context that has ended: %v", err)
	}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if got, err := s.Get(t.Context()); err != nil || got != "one" {
				t.Errorf("Get = %q, %v", got, err)
			}
		})
	}
	if wg.Wait(); v.reads.Load() != 1 {
		t.Errorf("%d reads, want 1", v.reads.Load())
	}
}

// TestRPC: other members are ignored, and no error quotes the secret.
func TestRPC(t *testing.T) {
	tabletest.Run(t, nil, func(t *testing.T, c tabletest.Case) {
		urls, err := secrets.RPC([]byte(c.In[0]))
		if refused := c.Want == "ErrRPC"; errors.Is(err, secrets.ErrRPC) != refused || !refused && fmt.Sprint(urls, err) != c.Want+" <nil>" ||
			strings.Contains(fmt.Sprint(err), "k3y") {
			t.Errorf("%v, %v; want %s", urls, err, c.Want)
		}
	})
}
