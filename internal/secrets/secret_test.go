package secrets_test

import (
	"context"
	"encoding/json"
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
	"github.com/aws/aws-sdk-go-v2/credentials"

	"remit/internal/secrets"
)

// vault is a Secrets Manager that answers what it is told to.
type vault struct {
	answer atomic.Pointer[func() (int, string)]
	reads  atomic.Int32
	clock  atomic.Int64
}

func (v *vault) set(status int, body string) {
	f := func() (int, string) { return status, body }
	v.answer.Store(&f)
}

func (v *vault) has(value string) {
	quoted, _ := json.Marshal(value)
	v.set(200, `{"SecretString":`+string(quoted)+`}`)
}

func (v *vault) now() time.Time          { return time.Unix(0, v.clock.Load()) }
func (v *vault) advance(d time.Duration) { v.clock.Add(int64(d)) }

func open(t *testing.T) (*vault, *secrets.Secret) {
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
		Credentials: credentials.NewStaticCredentialsProvider("a", "b", ""),
	}, "wallets", v.now)
}

func value(t *testing.T, s *secrets.Secret, want string) {
	t.Helper()
	if got, err := s.Value(t.Context()); err != nil || string(got) != want {
		t.Errorf("Value = %q, %v; want %q", got, err, want)
	}
}

func reads(t *testing.T, v *vault, want int32) {
	t.Helper()
	if got := v.reads.Load(); got != want {
		t.Errorf("%d reads, want %d", got, want)
	}
}

func TestValueIsKeptForMinutes(t *testing.T) {
	v, s := open(t)
	v.has("one")
	value(t, s, "one")
	v.has("two")
	v.advance(secrets.KeepFor - 1)
	value(t, s, "one")
	reads(t, v, 1)
	v.advance(1)
	value(t, s, "two")
	reads(t, v, 2)
}

func TestBinarySecret(t *testing.T) {
	v, s := open(t)
	v.set(200, `{"SecretBinary":"b25l"}`)
	value(t, s, "one")
}

func TestOutageAfterAValue(t *testing.T) {
	v, s := open(t)
	v.has("one")
	value(t, s, "one")
	v.advance(secrets.KeepFor)
	v.set(500, `{"__type":"InternalServiceError"}`)
	value(t, s, "one")
	value(t, s, "one")
	reads(t, v, 2) // the outage is not hammered
	v.advance(time.Hour)
	value(t, s, "one")
	reads(t, v, 3)
	v.has("two")
	v.advance(15 * time.Second)
	value(t, s, "two")
}

func TestOutageBeforeAValue(t *testing.T) {
	v, s := open(t)
	v.set(400, `{"__type":"AccessDeniedException"}`)
	if got, err := s.Value(t.Context()); err == nil || errors.Is(err, secrets.ErrMissing) {
		t.Errorf("Value = %q, %v; want an error that is not ErrMissing", got, err)
	}
	v.has("one")
	value(t, s, "one")
}

func TestMissing(t *testing.T) {
	for why, answer := range map[string]func(*vault){
		"no such secret":       func(v *vault) { v.set(400, `{"__type":"ResourceNotFoundException"}`) },
		"an empty value":       func(v *vault) { v.has("") },
		"no value of any sort": func(v *vault) { v.set(200, `{}`) },
	} {
		t.Run(why, func(t *testing.T) {
			v, s := open(t)
			v.has("one")
			value(t, s, "one")
			v.advance(secrets.KeepFor)
			answer(v)
			for range 2 {
				if got, err := s.Value(t.Context()); !errors.Is(err, secrets.ErrMissing) {
					t.Errorf("Value = %q, %v; want ErrMissing", got, err)
				}
			}
			v.has("two")
			value(t, s, "two")
		})
	}
}

func TestManyCallersShareARead(t *testing.T) {
	v, s := open(t)
	v.has("one")
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() { value(t, s, "one") })
	}
	wg.Wait()
	reads(t, v, 1)
}

func TestValueStopsWithItsContext(t *testing.T) {
	v, s := open(t)
	v.has("one")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Value(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v, want context.Canceled", err)
	}
}

func TestRPC(t *testing.T) {
	urls, err := secrets.RPC([]byte(`{"urls":["https://a.example/k3y","http://127.0.0.1:8545"],"note":"x"}`))
	if err != nil || fmt.Sprint(urls) != "[https://a.example/k3y http://127.0.0.1:8545]" {
		t.Errorf("RPC = %q, %v", urls, err)
	}
	for _, text := range []string{
		``, `k3y`, `"https://k3y"`, `[]`, `{}`, `{"urls":[]}`, `{"urls":"https://k3y"}`, `{"urls":[""]}`, `{"urls":["https://a/k3y","ws://k3y"]}`,
		`{"urls":["https://"]}`, `{"urls":["k3y.example/x"]}`, `{"urls":["https://k3y%zz"]}`, `{"urls":["https://a"]} k3y`,
	} {
		urls, err := secrets.RPC([]byte(text))
		if !errors.Is(err, secrets.ErrRPC) {
			t.Errorf("RPC(%s) = %q, %v; want ErrRPC", text, urls, err)
			continue
		}
		if strings.Contains(err.Error(), "k3y") {
			t.Errorf("RPC(%s) quotes the secret: %v", text, err)
		}
	}
}

func TestCached(t *testing.T) {
	var value []byte
	outage, unusable := errors.New("outage"), errors.New("unusable")
	var broken error
	makes := 0
	cached := secrets.Cache(func(context.Context) ([]byte, error) { return value, broken }, func(b []byte) (string, error) {
		makes++
		if string(b) == "bad" {
			return "", unusable
		}
		return "made of " + string(b), nil
	})
	for _, step := range []struct {
		why    string
		value  string
		broken error
		want   string
		err    error
		makes  int
	}{
		{"nothing without a value", "", outage, "", outage, 0},
		{"nothing of a bad value", "bad", nil, "", unusable, 1},
		{"which is tried once", "bad", nil, "", unusable, 1},
		{"a good value", "one", nil, "made of one", nil, 2},
		{"is used once", "one", nil, "made of one", nil, 2},
		{"an outage changes nothing", "", outage, "made of one", nil, 2},
		{"nor does a bad value", "bad", nil, "made of one", nil, 3},
		{"a new value is used", "two", nil, "made of two", nil, 4},
	} {
		value, broken = []byte(step.value), step.broken
		got, err := cached.Get(t.Context())
		if got != step.want || !errors.Is(err, step.err) || makes != step.makes {
			t.Errorf("%s: Get = %q, %v after %d makes; want %q, %v, %d", step.why, got, err, makes, step.want, step.err, step.makes)
		}
	}
}
