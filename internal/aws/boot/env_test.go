package boot_test

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/remit-payouts/remit/internal/aws/boot"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// env is an environment of exactly these variables, on top of those every Lambda has.
func env(t *testing.T, vars map[string]string) *boot.Env {
	t.Helper()
	always := map[string]string{"AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "AKID",
		"AWS_SECRET_ACCESS_KEY": "secret", "AWS_SESSION_TOKEN": "token"}
	return boot.OpenWith(func(name string) string {
		if v, ok := vars[name]; ok {
			return v
		}
		return always[name]
	})
}

func TestVariables(t *testing.T) {
	e := env(t, map[string]string{"NAME": "x", "COUNT": "-3", "EMPTY": ""})
	got := []any{
		e.String("NAME"), e.Optional("NAME", "y"), e.Optional("EMPTY", "y"), e.Int("COUNT"),
		boot.Parse(e, "NAME", func(s string) (string, error) { return strings.ToUpper(s), nil }),
	}
	if diff := cmp.Diff([]any{"x", "x", "y", -3, "X"}, got); diff != "" || e.Err() != nil {
		t.Errorf("error %v (-want +got):\n%s", e.Err(), diff)
	}
}

func TestEveryWrongVariableIsNamedAtOnce(t *testing.T) {
	e := env(t, map[string]string{"COUNT": "three", "BROKEN": "x"})
	broken := errors.New("broken")
	e.String("NAME")
	e.Int("COUNT")
	e.Int("MISSING")
	boot.Parse(e, "BROKEN", func(string) (int, error) { return 1, broken })
	err := e.Err()
	if !errors.Is(err, broken) {
		t.Errorf("%v does not wrap what a parser said", err)
	}
	for _, name := range []string{"NAME is not set", "COUNT:", "BROKEN:", "MISSING is not set"} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%q does not say %q", err, name)
		}
	}
}

func messages(bodies ...string) events.SQSEvent {
	var ev events.SQSEvent
	for _, b := range bodies {
		ev.Records = append(ev.Records, events.SQSMessage{MessageId: "message-" + b, Body: b})
	}
	return ev
}

func answered(ctx context.Context, t *testing.T, job boot.Job, ev events.SQSEvent) string {
	t.Helper()
	return string(must.Get(json.Marshal(must.Get(boot.Batches(job)(ctx, ev))(t)))(t))
}

func TestBatches(t *testing.T) {
	job := func(_ context.Context, body string) error {
		switch body {
		case "poison":
			panic("unreadable")
		case "bad":
			return errors.New("refused")
		}
		return nil
	}
	for _, test := range []struct {
		why  string
		ev   events.SQSEvent
		want string
	}{
		{"a batch that went well names nothing, in a list", messages("a", "b"), `{"batchItemFailures":[]}`},
		{"an empty batch too", messages(), `{"batchItemFailures":[]}`},
		{"exactly what failed is named", messages("a", "bad", "b", "poison", "c"),
			`{"batchItemFailures":[{"itemIdentifier":"message-bad"},{"itemIdentifier":"message-poison"}]}`},
	} {
		if got := answered(t.Context(), t, job, test.ev); got != test.want {
			t.Errorf("%s: %s, want %s", test.why, got, test.want)
		}
	}
}

func TestSlowMessageDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		var quick time.Duration
		got := answered(ctx, t, func(ctx context.Context, body string) error {
			if body == "hangs" {
				<-ctx.Done()
				return ctx.Err()
			}
			time.Sleep(time.Second)
			quick = time.Since(start)
			return nil
		}, messages("hangs", "quick"))
		if want := `{"batchItemFailures":[{"itemIdentifier":"message-hangs"}]}`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if quick != time.Second {
			t.Errorf("the quick message took %v", quick)
		}
		if took := time.Since(start); took != 29*time.Second {
			t.Errorf("answered after %v of 30 s", took)
		}
	})
}

func TestStarts(t *testing.T) {
	failure := errors.New("node is down")
	for event, isHint := range map[string]bool{`{}`: false, `null`: false,
		`{"Records":[{"messageId":"1","body":"{}"},{"messageId":"2","body":"{}"}]}`: true} {
		runs := 0
		err := boot.Starts(func(_ context.Context, hint bool) error {
			runs++
			if hint != isHint {
				t.Errorf("%s: taken for a hint: %v", event, hint)
			}
			return failure
		})(t.Context(), json.RawMessage(event))
		if runs != 1 || !errors.Is(err, failure) {
			t.Errorf("%s: %d runs, %v", event, runs, err)
		}
	}
}

// TestDeadConnection: an attempt on a connection that died while the function slept is cut off, and the next one uses
// another. Each names the function.
func TestDeadConnection(t *testing.T) {
	for within, hurry := range map[time.Duration]func(*boot.Env){
		time.Second:     (*boot.Env).Impatient, // the authorizer's
		2 * time.Second: func(*boot.Env) {},
	} {
		t.Run(within.String(), func(t *testing.T) {
			t.Parallel()
			var dead, hung atomic.Value
			hung.Store("")
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.ReadAll(r.Body) // only then the server notices that the client has gone
				if dead.Load() == r.RemoteAddr {
					hung.Store(r.Proto)
					<-r.Context().Done()
					return
				}
				if dead.Store(r.RemoteAddr); !strings.Contains(r.UserAgent(), "app/send-payment") {
					t.Errorf("User-Agent %q does not name the function", r.UserAgent())
				}
				w.Header().Set("Content-Type", "application/x-amz-json-1.0")
				_, _ = w.Write([]byte(`{}`))
			}))
			server.EnableHTTP2 = true
			server.StartTLS()
			defer server.Close()
			e := env(t, map[string]string{"AWS_ENDPOINT_URL": server.URL, "AWS_LAMBDA_FUNCTION_NAME": "send-payment"})
			hurry(e)
			e.AWS.HTTPClient = e.AWS.HTTPClient.(*awshttp.BuildableClient).WithTransportOptions(func(t *http.Transport) {
				t.TLSClientConfig.RootCAs = x509.NewCertPool()
				t.TLSClientConfig.RootCAs.AddCert(server.Certificate())
			})
			client := dynamodb.NewFromConfig(e.AWS, func(o *dynamodb.Options) {
				o.Retryer = retry.AddWithMaxBackoffDelay(o.Retryer, time.Millisecond)
			})
			ask := &dynamodb.GetItemInput{TableName: new("keys"),
				Key: map[string]types.AttributeValue{"pk": &types.AttributeValueMemberS{Value: "x"}}}
			// A connection may be free too late for the next request, and a busy machine adds to a time, or takes longer for each
			// attempt: the least counts.
			least, most := time.Hour, within+900*time.Millisecond
			for tries := 0; least > most && tries < 20; tries++ {
				hung.Store("")
				began := time.Now()
				if _, err := client.GetItem(t.Context(), ask); err == nil && hung.Load() != "" {
					least = min(least, time.Since(began))
				}
			}
			if least < within || least > most {
				t.Errorf("a dead connection costs %v, want %v", least, within)
			}
		})
	}
}
