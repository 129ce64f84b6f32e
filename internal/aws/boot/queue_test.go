package boot_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/remit-payouts/remit/internal/aws/boot"
	"github.com/remit-payouts/remit/internal/proof/must"
)

func messages(bodies ...string) events.SQSEvent {
	var ev events.SQSEvent
	for _, b := range bodies {
		ev.Records = append(ev.Records, events.SQSMessage{MessageId: "message-" + b, Body: b})
	}
	return ev
}

func answered(ctx context.Context, t *testing.T, job boot.Job, ev events.SQSEvent) string {
	t.Helper()
	response := must.Get(boot.Batches(job)(ctx, ev))(t)
	b := must.Get(json.Marshal(response))(t)
	return string(b)
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
