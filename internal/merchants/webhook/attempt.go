package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// An exchange is an attempt and the Retry-After header of its answer.
type exchange struct {
	Attempt
	retryAfter string
}

// post sends ev to e once. An error, if ctx ended or the message cannot be signed, counts as no attempt.
func post(ctx context.Context, s Sender, e Endpoint, ev Event, now func() time.Time) (exchange, error) {
	at := now()
	h, err := header(e, ev, at)
	if err != nil {
		return exchange{}, err
	}
	answer, err := s.Post(ctx, e.URL, h, ev.Body)
	// At is not rounded: two copies of one job make attempts that differ in it.
	x := exchange{Attempt: Attempt{At: at.UTC().Round(0), Duration: now().Sub(at).Round(time.Millisecond)}}
	if err != nil {
		if ctx.Err() != nil {
			return x, fmt.Errorf("posting %s to %s: %w", ev.ID, e.ID, ctx.Err())
		}
		x.Error = "the message could not be sent"
		if sent, ok := errors.AsType[*SendError](err); ok {
			x.Error = sent.Reason
		}
		return x, nil
	}
	x.StatusCode, x.retryAfter, x.Response = answer.StatusCode, answer.RetryAfter, text(answer.Body)
	x.Error = failure(answer.StatusCode)
	return x, nil
}

func failure(status int) string {
	switch {
	case status/100 == 2:
		return ""
	case status/100 == 3:
		return fmt.Sprintf("the endpoint answered %d; redirects are not followed", status)
	case status == http.StatusGone:
		return "the endpoint answered 410 and was disabled"
	}
	return fmt.Sprintf("the endpoint answered %d", status)
}

// text returns the first ResponseLimit bytes of an answer as UTF-8, without a character that the limit cuts off.
func text(b []byte) string {
	s := strings.ToValidUTF8(string(b[:min(len(b), ResponseLimit)]), "\uFFFD")
	if len(b) >= ResponseLimit {
		s = strings.TrimSuffix(s, "\uFFFD")
	}
	return s
}

func (a Attempt) result() string {
	switch a.StatusCode / 100 {
	case 2, 3, 4, 5:
		return fmt.Sprintf("%dxx", a.StatusCode/100)
	}
	return "None" // no usable answer
}

// schedule holds the wait before each attempt, give or take spread. Together they are about three days.
var schedule = [...]time.Duration{
	0, 5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour,
	5 * time.Hour, 10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
}

const (
	spread       = 0.2 // of a delay, both ways
	testAttempts = 4   // of the schedule, in test mode
)

func attemptLimit(mode string) int {
	if mode == "test" {
		return testAttempts
	}
	return len(schedule)
}

// delay returns the wait after failed attempt number made, with jitter in [0, 1). The Retry-After of a 429 or 503 is
// granted between once and twice the wait of the schedule.
func delay(made int, x exchange, now time.Time, jitter float64) time.Duration {
	base := schedule[made]
	if x.StatusCode == http.StatusTooManyRequests || x.StatusCode == http.StatusServiceUnavailable {
		if asked, ok := retryAfter(x.retryAfter, now); ok {
			return min(max(asked, base), 2*base)
		}
	}
	return time.Duration(float64(base) * (1 - spread + 2*spread*jitter))
}

// retryAfter reads the header: seconds or a date (RFC 9110, section 10.2.3).
func retryAfter(value string, now time.Time) (time.Duration, bool) {
	value = strings.TrimSpace(value)
	if value != "" && strings.Trim(value, "0123456789") == "" {
		seconds, _ := strconv.ParseInt(value, 10, 32) // the largest, if it has more digits
		return time.Duration(seconds) * time.Second, true
	}
	if at, err := http.ParseTime(value); err == nil {
		return at.Sub(now), true
	}
	return 0, false
}

// queueDelay returns a wait as a Queue takes it: whole seconds, rounded up, and no longer than its limit.
func queueDelay(wait time.Duration) time.Duration {
	return min(max((wait+time.Second-1).Truncate(time.Second), 0), QueueLimit)
}
